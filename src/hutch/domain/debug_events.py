"""Events of a debugger: its start, each stop of the program, who drives it, and its end."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from hutch.domain.base_event import Event

DebugAction = Literal["continue", "next", "step_in", "step_out", "pause"]


class StoppedFrame(BaseModel):
    """A call on the stack of a program that has stopped."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: str
    file: str = ""
    """A path in the workspace; empty for code outside."""
    line: int = 0


class BreakpointLine(BaseModel):
    """A breakpoint in a file."""

    model_config = ConfigDict(frozen=True, extra="allow")

    line: int
    condition: str = ""


class BreakpointsChanged(Event):
    """Breakpoints of a file were changed; `breakpoints` are all that it has now."""

    type: Literal["debug.breakpoints_changed"] = "debug.breakpoints_changed"
    file: str
    breakpoints: tuple[BreakpointLine, ...] = ()
    by: str = ""


class DebugStarted(Event):
    """A file or a test was started under a debugger. `by` drives it."""

    type: Literal["debug.started"] = "debug.started"
    debug: str
    file: str
    test: str = ""
    language: str
    command: str
    by: str = ""


class DebugDriverChanged(Event):
    """Another person, or the agent, drives the debugger."""

    type: Literal["debug.driver_changed"] = "debug.driver_changed"
    debug: str
    before: str
    by: str = ""


class DebugContinued(Event):
    """The program was continued, stepped or asked to pause."""

    type: Literal["debug.continued"] = "debug.continued"
    debug: str
    action: DebugAction
    by: str = ""


class DebugStopped(Event):
    """The program has stopped; `frames` are the top of the stack, the innermost call first."""

    type: Literal["debug.stopped"] = "debug.stopped"
    debug: str
    number: int
    reason: str
    text: str = ""
    file: str = ""
    line: int = 0
    thread: str = ""
    frames: tuple[StoppedFrame, ...] = ()


class DebugEvaluated(Event):
    """An expression was evaluated in the stopped program."""

    type: Literal["debug.evaluated"] = "debug.evaluated"
    debug: str
    expression: str
    result: str
    ok: bool = True
    by: str = ""


class DebugPrinted(Event):
    """The program printed text while it was debugged."""

    type: Literal["debug.printed"] = "debug.printed"
    debug: str
    stream: Literal["stdout", "stderr"]
    text: str
    skipped_bytes: int = 0
    by: str = ""


class DebugEnded(Event):
    """The debugger has ended, and its program with it."""

    type: Literal["debug.ended"] = "debug.ended"
    debug: str
    reason: str = ""
    exit_code: int | None = None
    stops: int = 0
    duration_s: float = 0.0
    by: str = ""


DebugEvent = (
    BreakpointsChanged
    | DebugStarted
    | DebugDriverChanged
    | DebugContinued
    | DebugStopped
    | DebugEvaluated
    | DebugPrinted
    | DebugEnded
)
