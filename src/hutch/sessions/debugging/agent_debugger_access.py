"""The session's debugger as a tool of the agent: each action waits for the next stop, and says what
it shows there.

The agent never takes over from a person: what a person drives, it can only read about in the log.
"""

from typing import Any

from hutch.agent.session_recorder import Recorder
from hutch.agent.tools.shared_debugger import DebugArguments, DebugReport
from hutch.domain.current_actor_and_author import AGENT
from hutch.domain.debug_events import DebugPrinted
from hutch.domain.errors import BadRequest
from hutch.domain.event_query import EventQuery
from hutch.domain.log_entry_audience import PUBLIC
from hutch.domain.relative_path import parse_path
from hutch.sessions.debugging import debug_requests as requests
from hutch.sessions.debugging.debug_requests import Breakpoint, DebuggerState, Variable
from hutch.sessions.debugging.shared_debugger import SharedDebugger

WAIT_S = 60.0
MAX_FRAMES = 8
MAX_VARIABLES = 40
MAX_VALUE_CHARS = 200
MAX_OUTPUT_CHARS = 4000
TEST_FILE = ("test_", "_test.", ".test.", ".spec.")


class AgentDebugger:
    """See `AgentDebugging`."""

    def __init__(self, debugger: SharedDebugger, recorder: Recorder) -> None:
        self._debugger, self._recorder = debugger, recorder
        self._printed_until = 0  # the number of the last event with output that was returned

    async def act(self, args: DebugArguments) -> DebugReport:
        match args.action:
            case "start":
                return await self._report(await self._start(args))
            case "evaluate":
                if not args.expression.strip():
                    raise BadRequest("evaluate needs an expression.")
                found = await self._debugger.answer(requests.EvaluateExpression(args.expression), by=AGENT)
                return DebugReport(_shown(found), {"name": found.name, "value": found.value})
            case "end":
                return await self._report(await self._debugger.answer(requests.StopDebugger(), by=AGENT))
        request = requests.ControlDebugger(args.action, wait_s=WAIT_S)
        return await self._report(await self._debugger.answer(request, by=AGENT))

    async def _start(self, args: DebugArguments) -> DebuggerState:
        if not args.path:
            raise BadRequest("start needs a path.")
        state: DebuggerState = await self._debugger.answer(requests.ReadDebugger(), by=AGENT)
        held = {each.path: each.breakpoints for each in state.breakpoints}
        for path, lines in _places(args.breakpoints).items():
            added = tuple(Breakpoint(line) for line in lines)
            request = requests.SetBreakpoints(path, (*held.get(path, ()), *added))
            state = await self._debugger.answer(request, by=AGENT)
        started: DebuggerState = await self._debugger.answer(
            requests.StartDebugger(
                args.path,
                args.test,
                as_test=bool(args.test) or any(part in args.path for part in TEST_FILE),
                stop_on_entry=not state.breakpoints,
                wait_s=WAIT_S,
            ),
            by=AGENT,
        )
        return started

    async def _report(self, state: DebuggerState) -> DebugReport:
        lines = [_status(state)]
        for each in state.frames[:MAX_FRAMES]:
            lines.append(f"  {each.name} {each.path or each.outside}:{each.line}")
        variables: list[Variable] = []
        if state.status == "stopped":
            variables = await self._locals()
            lines += ["Variables:", *(f"  {_shown(each)}" for each in variables)]
        printed = await self._printed(state.id)
        if printed:
            lines += ["Output:", printed]
        return DebugReport("\n".join(lines), _data(state, variables, printed))

    async def _locals(self) -> list[Variable]:
        scopes = await self._debugger.answer(requests.ReadVariables(), by=AGENT)
        if not scopes or not scopes[0].reference:
            return []
        request = requests.ReadVariables(reference=scopes[0].reference, limit=MAX_VARIABLES)
        return [each for each in await self._debugger.answer(request, by=AGENT) if each.name]

    async def _printed(self, debug: str) -> str:
        """The output since the last action, as the log has it: without secrets."""
        query, text = EventQuery(kinds=("debug.printed",)), ""
        found = await self._recorder.log.search(
            self._recorder.session_id, query, PUBLIC, after=self._printed_until, limit=200
        )
        for entry in found.entries:
            self._printed_until = entry.seq
            if isinstance(entry.event, DebugPrinted) and entry.event.debug == debug:
                text += entry.event.text
        return text[-MAX_OUTPUT_CHARS:].strip("\n")


def _places(texts: tuple[str, ...]) -> dict[str, list[int]]:
    """The lines of each file."""
    found: dict[str, list[int]] = {}
    for text in texts:
        path, _, line = text.rpartition(":")
        if not path or not line.isdecimal() or len(line) > 8:
            raise BadRequest(f"'{text[:100]}' is not a breakpoint. Write FILE:LINE.")
        found.setdefault(parse_path(path), []).append(int(line))
    return found


def _status(state: DebuggerState) -> str:
    if state.status == "stopped":
        return f"Stopped ({state.reason}){f': {state.text}' if state.text else ''}. Stack:"
    if state.status == "ended":
        code = "" if state.exit_code is None else f" with exit code {state.exit_code}"
        return f"The program has ended{code}: {state.reason}"
    if state.status == "running":
        return f"It still runs after {WAIT_S:g} s without a stop. end stops it."
    return f"The debugger is {state.status}."


def _shown(variable: Variable) -> str:
    value = variable.value
    cut = value if len(value) <= MAX_VALUE_CHARS else f"{value[:MAX_VALUE_CHARS]}…"
    return f"{variable.name} = {cut}"


def _data(state: DebuggerState, variables: list[Variable], printed: str) -> dict[str, Any]:
    return {
        "status": state.status,
        "reason": state.reason,
        "exit_code": state.exit_code,
        "frames": [
            {"name": each.name, "path": each.path, "line": each.line} for each in state.frames[:MAX_FRAMES]
        ],
        "variables": {each.name: each.value for each in variables},
        "output": printed,
    }
