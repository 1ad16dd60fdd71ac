"""A program under a debugger: its adapter, and its reports.

The adapter's numbers of frames and variables never leave this module's maps. Clients get numbers of our
own, which are valid until the program continues.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from hutch.domain.debug_events import DebugStopped, StoppedFrame
from hutch.domain.errors import BadRequest, Conflict, HutchError, NotFound, Unavailable
from hutch.jail.interface import PIPE, Jail
from hutch.sessions.debugging.debug_adapter_connection import AdapterConnection
from hutch.sessions.debugging.debug_adapter_values import ValueReader, whole
from hutch.sessions.debugging.debug_requests import Breakpoint, DebugFrame, DebugThread, Variable
from hutch.sessions.debugging.debugger_launch_parameters import LaunchPlan
from hutch.system.lazy_dataclass import dataclass

TOP_FRAMES = 20
MAX_EVENT_FRAMES = 5  # of a stop, in the log
MAX_KNOWN = 20_000  # references to variables of one stop
MAX_CACHED = 500  # answers of one stop
MAX_QUEUED = 1000  # events that wait
EVALUATE_TIMEOUT_S = 30.0
STEPS: Mapping[str, str] = {
    "continue": "continue",
    "next": "next",
    "step_in": "stepIn",
    "step_out": "stepOut",
    "pause": "pause",
}
logger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Stop:
    """The program has stopped."""

    reason: str
    text: str
    thread: int
    threads: tuple[DebugThread, ...]
    frames: tuple[DebugFrame, ...]

    def as_event(self, debug: str, number: int) -> DebugStopped:
        top = self.frames[0] if self.frames else None
        shown = self.frames[:MAX_EVENT_FRAMES]
        return DebugStopped(
            debug=debug,
            number=number,
            reason=self.reason,
            text=self.text,
            file=top.path if top else "",
            line=top.line if top else 0,
            thread=next((each.name for each in self.threads if each.id == self.thread), ""),
            frames=tuple(StoppedFrame(name=each.name, file=each.path, line=each.line) for each in shown),
        )


@dataclass(frozen=True, slots=True)
class ProgramCallbacks:
    """Functions that are called when a program reports something."""

    output: Callable[[str, bytes], None]  # of `stdout` or `stderr`
    verified: Callable[[str, int, bool, str], None]  # a breakpoint: its path, index, and whether it holds
    stopped: Callable[[Stop], Any]  # these two are coroutines
    ended: Callable[[int | None, str], Any]


class DebuggedProgram:
    """One program under a debugger."""

    def __init__(
        self, jail: Jail, plan: LaunchPlan, values: ValueReader, callbacks: ProgramCallbacks
    ) -> None:
        self._jail, self._plan, self._values, self._callbacks = jail, plan, values, callbacks
        self._connection: AdapterConnection | None = None
        self._events: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue(MAX_QUEUED)
        self._initialized = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._known: dict[int, int] = {}  # our numbers of variables to the adapter's
        self._frames: dict[int, int] = {}
        self._cache: dict[object, Sequence[Variable]] = {}
        self._breakpoints: dict[int, tuple[str, int]] = {}  # the adapter's numbers: path, index
        self._exit_code: int | None = None
        self._thread = 0
        self._ended = False

    async def start(self, breakpoints: Sequence[tuple[str, Sequence[Breakpoint]]]) -> None:
        """Start the adapter, set breakpoints, and start the program."""
        plan = self._plan
        process = await self._jail.spawn(plan.adapter, stdin=PIPE, cwd=self._jail.workspace)
        self._connection = connection = AdapterConnection(process, self._take, self._lose)
        self._worker = asyncio.ensure_future(self._work())
        if plan.first:
            await connection.send_first(plan.first, plan.start_timeout_s)
        about = {"clientID": "hutch", "adapterID": plan.language, "pathFormat": "path"}
        about |= {"linesStartAt1": True, "columnsStartAt1": True, "supportsVariableType": True}  # type: ignore[dict-item]
        await connection.request("initialize", about, timeout_s=plan.start_timeout_s)
        launching = asyncio.ensure_future(
            connection.request("launch", plan.launch, timeout_s=plan.start_timeout_s)
        )
        try:
            await self._wait_initialized(launching)
            for path, lines in breakpoints:
                await self.set_breakpoints(path, lines)
            await connection.request("setExceptionBreakpoints", {"filters": ["uncaught"]})
            await connection.request("configurationDone", {}, timeout_s=plan.start_timeout_s)
            await launching
        finally:
            launching.cancel()
            await asyncio.wait([launching])

    async def _wait_initialized(self, launching: asyncio.Task[dict[str, Any]]) -> None:
        """Wait until the adapter takes breakpoints; it may refuse the launch before that."""
        ready = asyncio.ensure_future(self._initialized.wait())
        try:
            await asyncio.wait(
                [ready, launching], timeout=self._plan.start_timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            if not self._initialized.is_set():
                if launching.done():
                    launching.result()
                raise Unavailable(f"The debugger was not ready within {self._plan.start_timeout_s:g} s.")
        finally:
            ready.cancel()

    async def set_breakpoints(self, path: str, lines: Sequence[Breakpoint]) -> None:
        """Replace the breakpoints of a file; `verified` is called for each."""
        asked = [
            {"line": each.line, **({"condition": each.condition} if each.condition else {})} for each in lines
        ]
        source = {"path": f"{self._jail.workspace}/{path}"}
        body = await self._live.request("setBreakpoints", {"source": source, "breakpoints": asked})
        found = body.get("breakpoints")
        for index, each in enumerate(found[: len(lines)] if isinstance(found, list) else []):
            if isinstance(each, dict):
                self._breakpoints[whole(each.get("id"))] = path, index
                self._verify(path, index, each)

    async def step(self, action: str) -> None:
        """Continue, step or pause. If the program ends at once, its adapter may end without an answer."""
        live = self._live
        try:
            await live.request(STEPS[action], {"threadId": self._thread or 1})
        except Unavailable:
            if not live.is_closed:
                raise

    def forget(self) -> None:
        """Forget the numbers of the last stop: they are void once the program continues."""
        self._known.clear()
        self._frames.clear()
        self._cache.clear()

    async def stack(self, thread: int, levels: int) -> tuple[DebugFrame, ...]:
        """The innermost frames of a thread."""
        body = await self._live.request(
            "stackTrace", {"threadId": thread or self._thread, "startFrame": 0, "levels": levels}
        )
        frames = []
        for theirs, frame in self._values.frames(body):
            ours = next((ours for ours, known in self._frames.items() if known == theirs), 0)
            ours = ours or len(self._frames) + 1
            self._frames[ours] = theirs
            frames.append(DebugFrame(ours, frame.name, frame.path, frame.line, frame.outside))
        return tuple(frames[:levels])

    async def scopes(self, frame: int) -> Sequence[Variable]:
        """The scopes of a frame."""
        body = {"frameId": self._frame(frame)}
        return await self._read(("scopes", frame), "scopes", body, "scopes")

    async def parts(self, reference: int, start: int, limit: int) -> Sequence[Variable]:
        """The parts of a scope or variable."""
        theirs = self._known.get(reference)
        if theirs is None:
            raise NotFound(
                f"There is no variable {reference} in this stop of the program. Read its scopes again."
            )
        found = await self._read(
            ("variables", reference), "variables", {"variablesReference": theirs}, "variables"
        )
        return found[start : start + limit]

    async def evaluate(self, expression: str, frame: int) -> Variable:
        """Evaluate an expression, which may change the program: answers of this stop are read again."""
        self._cache.clear()
        body = {"expression": expression, "frameId": self._frame(frame), "context": "repl"}
        answer = await self._live.request("evaluate", body, timeout_s=EVALUATE_TIMEOUT_S)
        return self._own(self._values.result(self._values.text(expression, 1000), answer))

    async def close(self) -> None:
        """End the adapter and the program."""
        self._ended = True
        if self._worker is not None and self._worker is not asyncio.current_task():
            self._worker.cancel()
        if self._connection is not None:
            await self._connection.close()

    @property
    def error_text(self) -> str:
        """The end of the error output of an adapter that failed."""
        text = self._connection.error_text if self._connection is not None else ""
        return self._values.lines(text, 1000)

    # --- internals ---

    @property
    def _live(self) -> AdapterConnection:
        if self._connection is None or self._ended:
            raise Conflict("The debugger has ended. Start it again.")
        return self._connection

    def _frame(self, frame: int) -> int:
        theirs = self._frames.get(frame or 1)
        if theirs is None:
            raise NotFound(f"There is no frame {frame} in this stop of the program. Read the stack again.")
        return theirs

    async def _read(
        self, key: object, command: str, arguments: Mapping[str, Any], field: str
    ) -> Sequence[Variable]:
        """Read it once per stop, for any number of viewers."""
        if key not in self._cache:
            body = await self._live.request(command, arguments)
            found = await asyncio.to_thread(lambda: list(self._values.variables(body, field)))
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            self._cache[key] = [self._own(each) for each in found]
        return self._cache[key]

    def _own(self, variable: Variable) -> Variable:
        """The variable with a number of our own."""
        if not variable.reference or len(self._known) >= MAX_KNOWN:
            return Variable(variable.name, variable.value, variable.type)
        ours = len(self._known) + 1
        self._known[ours] = variable.reference
        return Variable(variable.name, variable.value, variable.type, ours)

    def _take(self, name: str, body: dict[str, Any]) -> None:
        """Take an event, without waiting: the connection reads on."""
        if name == "output":
            category, text = body.get("category"), body.get("output")
            if isinstance(text, str) and category in ("stdout", "stderr", "console", None):
                stream = "stdout" if category == "stdout" else "stderr"
                self._callbacks.output(stream, text.encode(errors="replace"))
        elif name == "initialized":
            self._initialized.set()
        elif name == "breakpoint":
            each = body.get("breakpoint")
            if isinstance(each, dict) and (place := self._breakpoints.get(whole(each.get("id")))):
                self._verify(*place, each)
        elif name in ("stopped", "exited", "terminated") and not self._events.full():
            self._events.put_nowait((name, body))

    def _verify(self, path: str, index: int, found: Mapping[str, Any]) -> None:
        self._callbacks.verified(
            path, index, found.get("verified") is True, self._values.text(found.get("message"))
        )

    def _lose(self, reason: str) -> None:
        if not self._events.full():
            self._events.put_nowait(("lost", {"reason": reason}))

    async def _work(self) -> None:
        while True:
            name, body = await self._events.get()
            try:
                if await self._handle(name, body):
                    return
            except HutchError as error:
                logger.warning("debug.event_failed", event_name=name, error=str(error))

    async def _handle(self, name: str, body: Mapping[str, Any]) -> bool:
        """Handle an event; True if it was the last one."""
        if name == "exited":
            code = body.get("exitCode")
            self._exit_code = code if type(code) is int and abs(code) < 2**31 else None
            return False
        if name == "stopped":
            await self._stop(body)
            return False
        self._ended = True
        await self._callbacks.ended(self._exit_code, self._values.text(body.get("reason")))
        return True

    async def _stop(self, body: Mapping[str, Any]) -> None:
        self.forget()
        self._thread = whole(body.get("threadId")) or self._thread
        try:
            threads = self._values.threads(await self._live.request("threads", {}))
            frames = await self.stack(self._thread, TOP_FRAMES)
        except (BadRequest, Unavailable) as error:  # a broken adapter; the stop is shown without a stack
            logger.info("debug.no_stack", error=str(error))
            threads, frames = (), ()
        reason = self._values.text(body.get("reason"), 60)
        text = self._values.text(body.get("text") or body.get("description"), 500)
        await self._callbacks.stopped(Stop(reason, text, self._thread, threads, frames))
