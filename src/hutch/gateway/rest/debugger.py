"""The debugger of a session: its state, breakpoints, steps, stack and variables."""

from typing import Annotated

from fastapi import Query, Request, Response
from pydantic import Field

from hutch.domain.debug_events import DebugAction
from hutch.gateway.auth.caller_dependency import Reader, Writer
from hutch.gateway.idempotency import ByKey
from hutch.gateway.request_and_response_bodies import In, Out, answer, fields_from
from hutch.gateway.rest.base_route import ask, router
from hutch.sessions.debugging import debug_requests as requests
from hutch.sessions.debugging.debug_adapter_values import MAX_FRAMES, MAX_VARIABLES
from hutch.sessions.debugging.session_breakpoints import MAX_BREAKPOINTS, MAX_CONDITION_CHARS
from hutch.sessions.debugging.shared_debugger import MAX_EXPRESSION_CHARS, MAX_IDLE_S

routes = router("debugger")

MAX_LINE = 10_000_000
MAX_WAIT_S = 60.0
MAX_ARGUMENTS = 100
Path = Annotated[str, Field(min_length=1, max_length=4000, description="A file of the workspace.")]
Argument = Annotated[str, Field(max_length=4000)]
Wait = Annotated[
    float,
    Field(ge=0, le=MAX_WAIT_S, description="Respond when it has stopped or ended, at most so much later."),
]


class BreakpointIn(In):
    """A breakpoint."""

    line: int = Field(ge=1, le=MAX_LINE)
    condition: str = Field(
        "", max_length=MAX_CONDITION_CHARS - 1, description="An expression; it stops only if that is true."
    )


class BreakpointsIn(In):
    """All breakpoints of a file; an empty list removes them."""

    path: Path
    breakpoints: list[BreakpointIn] = Field(max_length=MAX_BREAKPOINTS)


class DebuggerIn(In):
    """A file to debug, or tests in it."""

    path: Path = Field(examples=["tests/test_add.py"])
    test: str = Field("", max_length=1000, description="Only this test of the file.", examples=["test_add"])
    as_test: bool = Field(False, description="Run the file with its test runner.")
    arguments: list[Argument] = Field(default=[], max_length=MAX_ARGUMENTS)
    stop_on_entry: bool = Field(False, description="Stop at the first line.")
    idle_s: float = Field(
        requests.DEFAULT_IDLE_S,
        ge=1,
        le=MAX_IDLE_S,
        description="A stopped program ends after this time without an action.",
    )
    wait_s: Wait = 0.0


class ControlIn(In):
    """An action of the driver."""

    action: DebugAction
    wait_s: Wait = 0.0


class EvaluateIn(In):
    """An expression in the language of the program."""

    expression: str = Field(min_length=1, max_length=MAX_EXPRESSION_CHARS)
    frame: int = Field(0, ge=0, description="The id of a frame; 0 is the innermost.")


@fields_from(requests.Breakpoint)
class BreakpointOut(Out):
    """A breakpoint."""

    verified: bool = Field(description="Whether the program that runs now has code there.")
    message: str = Field(description="Why it has none.")


@fields_from(requests.FileBreakpoints, "path")
class FileBreakpointsOut(Out):
    """The breakpoints of a file."""

    breakpoints: list[BreakpointOut]


@fields_from(requests.DebugFrame)
class FrameOut(Out):
    """A call on the stack."""

    path: str = Field(description="In the workspace; empty for code outside.")
    outside: str = Field(description="The name of a file outside.")


@fields_from(requests.DebugThread)
class ThreadOut(Out):
    """A thread of the program."""


@fields_from(requests.DebuggerState, "id path test language driver stop reason text thread exit_code")
class DebuggerOut(Out):
    """The debugger of a session."""

    status: requests.DebugStatus
    driver: str = Field(description="A user's id, or `agent`.")
    stop: int = Field(description="The number of the last stop.")
    reason: str = Field(description="Of the last stop, or of the end.")
    threads: list[ThreadOut]
    frames: list[FrameOut] = Field(description="While it is stopped: the innermost first.")
    breakpoints: list[FileBreakpointsOut]


class StackOut(Out):
    """The calls of a thread, the innermost first."""

    items: list[FrameOut]
    next: None = None


@fields_from(requests.Variable)
class VariableOut(Out):
    """A variable, or a result."""

    reference: int = Field(description="To read its parts, until the program continues; 0: it has none.")


class VariablesOut(Out):
    """Scopes of a frame, or parts of a variable."""

    items: list[VariableOut]
    next: None = None


@routes.get("/sessions/{session_id}/debugger", operation_id="get_debugger", response_model=DebuggerOut)
async def show(
    request: Request,
    caller: Reader,
    session_id: str,
    wait_s: Annotated[
        float, Query(ge=0, le=MAX_WAIT_S, description="Respond when it has stopped or ended.")
    ] = 0,
    after: Annotated[int, Query(ge=-1, description="A stop with a higher number.")] = -1,
) -> Response:
    """The state of the debugger, and all breakpoints. The session's events say when it changes."""
    found = await ask(request, caller, session_id, requests.ReadDebugger(wait_s, after))
    return answer(DebuggerOut.of(found))


@routes.post(
    "/sessions/{session_id}/debugger",
    status_code=201,
    operation_id="start_debugger",
    response_model=DebuggerOut,
)
async def start(
    request: Request, caller: Writer, keyed: ByKey, session_id: str, body: DebuggerIn
) -> Response:
    """Start a file or a test under the debugger of its language, in the jail. The caller drives it.

    One runs at a time; another is a conflict.
    """
    wanted = requests.StartDebugger(
        body.path,
        body.test,
        body.as_test,
        tuple(body.arguments),
        body.stop_on_entry,
        body.idle_s,
        body.wait_s,
    )
    found = await ask(request, caller, session_id, wanted)
    return answer(DebuggerOut.of(found), 201)


@routes.delete("/sessions/{session_id}/debugger", operation_id="stop_debugger", response_model=DebuggerOut)
async def stop(request: Request, caller: Writer, session_id: str) -> Response:
    """End the debugger and its program. Only its driver may."""
    found = await ask(request, caller, session_id, requests.StopDebugger())
    return answer(DebuggerOut.of(found))


@routes.put(
    "/sessions/{session_id}/debugger/breakpoints",
    operation_id="set_breakpoints",
    response_model=DebuggerOut,
)
async def set_breakpoints(request: Request, caller: Writer, session_id: str, body: BreakpointsIn) -> Response:
    """Replace the breakpoints of a file, for everyone in the session."""
    lines = tuple(requests.Breakpoint(each.line, each.condition) for each in body.breakpoints)
    found = await ask(request, caller, session_id, requests.SetBreakpoints(body.path, lines))
    return answer(DebuggerOut.of(found))


@routes.post(
    "/sessions/{session_id}/debugger/control", operation_id="control_debugger", response_model=DebuggerOut
)
async def control(
    request: Request, caller: Writer, keyed: ByKey, session_id: str, body: ControlIn
) -> Response:
    """Continue, step over (`next`), into or out, or pause. Only the driver may."""
    wanted = requests.ControlDebugger(body.action, body.wait_s)
    found = await ask(request, caller, session_id, wanted)
    return answer(DebuggerOut.of(found))


@routes.post(
    "/sessions/{session_id}/debugger/drive", operation_id="drive_debugger", response_model=DebuggerOut
)
async def drive(request: Request, caller: Writer, keyed: ByKey, session_id: str) -> Response:
    """Take over from the driver. The log says so."""
    found = await ask(request, caller, session_id, requests.DriveDebugger())
    return answer(DebuggerOut.of(found))


@routes.get("/sessions/{session_id}/debugger/stack", operation_id="get_stack", response_model=StackOut)
async def stack(
    request: Request,
    caller: Reader,
    session_id: str,
    thread: Annotated[int, Query(ge=0, description="The id of a thread; 0 is the one that stopped.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_FRAMES)] = 100,
) -> Response:
    """The calls of a thread of the stopped program."""
    found = await ask(request, caller, session_id, requests.ReadStack(thread, limit))
    return answer({"items": [FrameOut.of(each) for each in found], "next": None})


@routes.get(
    "/sessions/{session_id}/debugger/variables", operation_id="get_variables", response_model=VariablesOut
)
async def variables(
    request: Request,
    caller: Reader,
    session_id: str,
    frame: Annotated[int, Query(ge=0, description="The scopes of this frame; 0 is the innermost.")] = 0,
    reference: Annotated[int, Query(ge=0, description="The parts of this scope or variable instead.")] = 0,
    start: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_VARIABLES)] = 100,
) -> Response:
    """Variables of the stopped program, without secrets."""
    wanted = requests.ReadVariables(frame, reference, start, limit)
    found = await ask(request, caller, session_id, wanted)
    return answer({"items": [VariableOut.of(each) for each in found], "next": None})


@routes.post("/sessions/{session_id}/debugger/evaluate", operation_id="evaluate", response_model=VariableOut)
async def evaluate(
    request: Request, caller: Writer, keyed: ByKey, session_id: str, body: EvaluateIn
) -> Response:
    """Evaluate an expression in the stopped program. Only the driver may: it can change the program."""
    wanted = requests.EvaluateExpression(body.expression, body.frame)
    found = await ask(request, caller, session_id, wanted)
    return answer(VariableOut.of(found))
