"""The requests about the debugger of a session, and the data that answer them.

A session has one debugger at a time. Everyone who sees the session sees its state; one of those who may
work in the session drives it.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal, TypeVar

from hutch.domain.debug_events import DebugAction
from hutch.sessions.file_and_command_requests import Changing, Request
from hutch.system.lazy_dataclass import dataclass

T = TypeVar("T")
DebugStatus = Literal["none", "starting", "running", "stopped", "ended"]
DEFAULT_IDLE_S = 600.0


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A line at which a program stops, if the condition holds."""

    line: int
    condition: str = ""
    verified: bool = False  # the program that runs now has code there
    message: str = ""  # why not


@dataclass(frozen=True, slots=True)
class FileBreakpoints:
    """All breakpoints of a file."""

    path: str
    breakpoints: tuple[Breakpoint, ...]


@dataclass(frozen=True, slots=True)
class DebugFrame:
    """A call on the stack of the stopped program."""

    id: int
    name: str
    path: str  # in the workspace; empty for code outside
    line: int
    outside: str = ""  # the name of the file outside


@dataclass(frozen=True, slots=True)
class DebugThread:
    """A thread of the program."""

    id: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DebuggerState:
    """The state of a debugger, for everyone in the session."""

    id: str = ""
    status: DebugStatus = "none"
    path: str = ""
    test: str = ""
    language: str = ""
    driver: str = ""  # a user's id, or `agent`
    stop: int = 0  # the number of the last stop
    reason: str = ""  # of the last stop, or of the end
    text: str = ""  # of an exception
    thread: int = 0
    threads: tuple[DebugThread, ...] = ()
    frames: tuple[DebugFrame, ...] = ()  # while it is stopped, the innermost first
    exit_code: int | None = None
    breakpoints: tuple[FileBreakpoints, ...] = ()


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable, a part of one, or a result. One with a `reference` has parts."""

    name: str
    value: str
    type: str = ""
    reference: int = 0


class DebuggerRequest(Request[T]):
    """A request about the debugger that changes nothing."""

    __slots__ = ()


class DebuggerChange(Changing[T]):
    """A request that starts, drives or ends the debugger."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ReadDebugger(DebuggerRequest[DebuggerState]):
    """The state of the debugger; with `wait_s`, once it is not running, or has stopped after stop `after`."""

    wait_s: float = 0.0
    after: int = -1


@dataclass(frozen=True, slots=True)
class StartDebugger(DebuggerChange[DebuggerState]):
    """Start a file under its debugger, or one of its tests, or all of them with `as_test`."""

    reads_typed_text: ClassVar[bool] = True

    path: str
    test: str = ""
    as_test: bool = False
    words: tuple[str, ...] = ()  # arguments of the program, or of the test runner
    stop_on_entry: bool = False
    idle_s: float = DEFAULT_IDLE_S
    wait_s: float = 0.0  # until it stops or ends


@dataclass(frozen=True, slots=True)
class SetBreakpoints(DebuggerChange[DebuggerState]):
    """Replace the breakpoints of a file."""

    path: str
    breakpoints: tuple[Breakpoint, ...]


@dataclass(frozen=True, slots=True)
class ControlDebugger(DebuggerChange[DebuggerState]):
    """Continue, step or pause the program."""

    action: DebugAction
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class DriveDebugger(DebuggerChange[DebuggerState]):
    """Take over from the user who drives the debugger."""


@dataclass(frozen=True, slots=True)
class StopDebugger(DebuggerChange[DebuggerState]):
    """End the debugger and its program."""


@dataclass(frozen=True, slots=True)
class ReadStack(DebuggerRequest[Sequence[DebugFrame]]):
    """The calls of a thread, the innermost first; 0 is the thread that stopped."""

    thread: int = 0
    limit: int = 100


@dataclass(frozen=True, slots=True)
class ReadVariables(DebuggerRequest[Sequence[Variable]]):
    """The scopes of a frame, or the parts of a variable."""

    frame: int = 0
    reference: int = 0
    start: int = 0
    limit: int = 100


@dataclass(frozen=True, slots=True)
class EvaluateExpression(DebuggerChange[Variable]):
    """Evaluate an expression in a frame; 0 is the innermost."""

    expression: str
    frame: int = 0
