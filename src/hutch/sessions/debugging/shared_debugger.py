"""The debugger of a session: one program, one driver, and everyone else watches.

The user who starts it drives: only they continue, step, evaluate and end the program. Anyone else who may
work in the session can take over, as an explicit act that the log records. The agent does not take
over from a person. Breakpoints belong to the session, and everyone who works in it sets them.

A stopped program that is not used for a while is ended, and so is one whose session is parked.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import structlog

from hutch.agent.repository_testing.runner_definition import Runner
from hutch.agent.repository_testing.workspace_test_suite_runs import RepositoryTests
from hutch.domain.base_event import Event
from hutch.domain.current_actor_and_author import AGENT, HUTCH, Actor
from hutch.domain.debug_events import (
    DebugContinued,
    DebugDriverChanged,
    DebugEnded,
    DebugEvaluated,
    DebugPrinted,
    DebugStarted,
)
from hutch.domain.errors import BadRequest, Conflict, Denied, HutchError, NotFound, Unavailable
from hutch.domain.ids import new_debug_id
from hutch.domain.relative_path import parse_path
from hutch.sessions.command_and_terminal_recorder import OutputRecorder
from hutch.sessions.debugging import debug_requests as requests
from hutch.sessions.debugging.debug_adapter_values import ValueReader
from hutch.sessions.debugging.debug_requests import Breakpoint, DebuggerState, Variable
from hutch.sessions.debugging.debugged_program import DebuggedProgram, ProgramCallbacks, Stop
from hutch.sessions.debugging.debugger_launch_by_language import plan_launch
from hutch.sessions.debugging.debugger_launch_parameters import LaunchPlan
from hutch.sessions.file_and_command_requests import Request
from hutch.sessions.sandbox import Sandbox

if TYPE_CHECKING:
    from hutch.sessions.live_session import LiveSession

MAX_EXPRESSION_CHARS = 2000
MAX_RESULT_CHARS = 2000  # in the log
MAX_IDLE_S = 3600.0
AFTER = "after a debugger"
logger = structlog.get_logger()


class SharedDebugger:
    """Starts, drives and ends the debugger of one open sandbox."""

    def __init__(
        self,
        live: "LiveSession",
        sandbox: Sandbox,
        output: OutputRecorder,
        take_snapshot: Callable[[str], None],
    ) -> None:
        self._live, self._sandbox, self._output = live, sandbox, output
        self._take_snapshot = take_snapshot
        self._recorder, self._breakpoints = live.recorder, live.breakpoints
        self._state = DebuggerState()
        self._program: DebuggedProgram | None = None
        self._changed = asyncio.Event()  # replaced at each change
        self._turn = asyncio.Lock()  # one action at a time
        self._idle: asyncio.TimerHandle | None = None
        self._idle_s = 0.0
        self._used_at = self._began = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_used(self) -> bool:
        """True while a program runs, or is stopped and was used lately: the session must not be parked."""
        return self._program is not None and time.monotonic() - self._used_at < self._idle_s

    async def answer(self, request: Request[Any], *, by: str) -> Any:
        """Answer a request about debugging."""
        await self._breakpoints.read()
        match request:
            case requests.ReadDebugger(wait_s, after):
                return await self._wait(wait_s, after)
            case requests.StartDebugger():
                return await self.start(request, by=by)
            case requests.SetBreakpoints(path, breakpoints):
                return await self.set_breakpoints(path, breakpoints, by=by)
            case requests.ControlDebugger():
                return await self.control(request, by=by)
            case requests.DriveDebugger():
                return await self.drive(by=by)
            case requests.StopDebugger():
                return await self.stop(by=by)
            case requests.ReadStack(thread, limit):
                return await self._stopped().stack(thread, limit)
            case requests.ReadVariables(frame, reference, start, limit):
                program = self._stopped()
                if reference:
                    return await program.parts(reference, start, limit)
                return await program.scopes(frame)
            case requests.EvaluateExpression(expression, frame):
                return await self.evaluate(expression, frame, by=by)
        raise NotFound(f"There is no request '{type(request).__name__}'.")

    @property
    def state(self) -> DebuggerState:
        return replace(self._state, breakpoints=self._breakpoints.shown())

    # --- actions ---

    async def start(self, request: requests.StartDebugger, *, by: str) -> DebuggerState:
        """Start a program under its debugger."""
        async with self._turn:
            if self._program is not None:
                raise Conflict(
                    f"A debugger runs already, on '{self._state.path}'. One runs at a time: stop it first."
                )
            path = parse_path(request.path)
            await self._sandbox.workspace.stat(path)  # refuses a path that does not exist
            jail = self._sandbox.jail
            plan = await plan_launch(request, jail, await self._runners(request))
            self._begin(plan, request, by)
            await self._recorder.append(
                [
                    DebugStarted(
                        debug=self._state.id,
                        file=self._recorder.clean_path(path),
                        test=self._clean(request.test),
                        language=plan.language,
                        command=self._clean(plan.command),
                        by=by,
                    )
                ]
            )
            await self._launch(plan)
        return await self._wait(request.wait_s, 0)

    async def set_breakpoints(
        self, path: str, breakpoints: Sequence[Breakpoint], *, by: str
    ) -> DebuggerState:
        """Replace the breakpoints of a file, for everyone."""
        async with self._turn:
            lines = await self._breakpoints.set(path, breakpoints, by=by)
            if lines is not None:
                if self._program is not None and self._state.status in ("running", "stopped"):
                    await self._program.set_breakpoints(parse_path(path), lines)
                    self._touch()
                self._announce()
        return self.state

    async def control(self, request: requests.ControlDebugger, *, by: str) -> DebuggerState:
        """Continue, step or pause."""
        async with self._turn:
            program = self._driven(by)
            wanted = "running" if request.action == "pause" else "stopped"
            if self._state.status != wanted:
                raise Conflict(f"The program is {self._state.status}, not {wanted}.")
            number = self._state.stop
            if request.action != "pause":
                program.forget()
                self._set(status="running", frames=(), reason="", text="")
            await self._recorder.append([DebugContinued(debug=self._state.id, action=request.action, by=by)])
            try:
                await program.step(request.action)
            except BadRequest:
                if request.action != "pause" and self._state.status == "running":
                    self._set(status="stopped")
                raise
            self._touch()
        return await self._wait(request.wait_s, number)

    async def evaluate(self, expression: str, frame: int, *, by: str) -> Variable:
        """Evaluate in the stopped program."""
        if len(expression) > MAX_EXPRESSION_CHARS:
            raise BadRequest(f"An expression has at most {MAX_EXPRESSION_CHARS} characters.")
        async with self._turn:
            program = self._driven(by)
            self._stopped()
            self._touch()
            shown = Variable(self._clean(expression), "")
            try:
                shown = await program.evaluate(expression, frame)
                is_ok = True
            except BadRequest as error:
                shown, is_ok = replace(shown, value=self._clean(str(error))), False
            event = DebugEvaluated(
                debug=self._state.id,
                expression=self._clean(expression),
                result=shown.value[:MAX_RESULT_CHARS],
                ok=is_ok,
                by=by,
            )
            await self._recorder.append([event])
        if not is_ok:
            raise BadRequest(shown.value)
        return shown

    async def drive(self, *, by: str) -> DebuggerState:
        """Take over from the driver."""
        async with self._turn:
            if self._program is None:
                raise Conflict("No debugger runs. Start one.")
            before = self._state.driver
            if by == AGENT and before != AGENT:
                raise Denied("A person drives the debugger. Ask them to finish or to let you drive.")
            if before != by:
                self._set(driver=by)
                await self._recorder.append([DebugDriverChanged(debug=self._state.id, before=before, by=by)])
            self._touch()
        return self.state

    async def stop(self, *, by: str) -> DebuggerState:
        """End the program."""
        self._driven(by)
        await self._end("stopped", by=by)
        return self.state

    async def close(self) -> None:
        """End everything: the jail closes."""
        for task in tuple(self._tasks):
            task.cancel()
        try:
            await self._end("the session was parked", by=HUTCH)
        except HutchError as error:
            logger.warning("debug.end_not_recorded", session_id=self._live.id, error=str(error))

    # --- the program ---

    async def _runners(self, request: requests.StartDebugger) -> Sequence[Runner]:
        """The runners of the repository's tests, if a test is debugged."""
        if not (request.test or request.as_test):
            return ()
        session = await self._live.sessions.get(self._live.id)
        options = await self._live.suite_options(session)
        tests = RepositoryTests(
            self._sandbox.workspace,
            self._sandbox.jail,
            options,
            self._recorder.redactor,
            self._live.activity.working,
        )
        try:
            return await tests.suites()
        except NotFound:  # no runner recognises its tests; the language's own runs it
            return ()

    def _begin(self, plan: LaunchPlan, request: requests.StartDebugger, by: str) -> None:
        self._state = DebuggerState(
            id=new_debug_id(),
            status="starting",
            path=plan.path,
            test=plan.test,
            language=plan.language,
            driver=by,
        )
        self._breakpoints.reset()
        self._idle_s = min(request.idle_s, MAX_IDLE_S)
        self._began = time.monotonic()
        jail = self._sandbox.jail
        values = ValueReader(self._recorder.redactor, jail.workspace, jail.policy.also_at)
        callbacks = ProgramCallbacks(self._print, self._breakpoints.verify, self._on_stop, self._on_end)
        self._program = DebuggedProgram(jail, plan, values, callbacks)
        self._touch()
        self._announce()

    async def _launch(self, plan: LaunchPlan) -> None:
        program = self._program
        assert program is not None
        actor = Actor(self._state.driver, "command", self._state.id)
        self._live.activity.begin(("debugger", self._state.id), actor)
        try:
            await program.start(self._breakpoints.items())
        except BaseException as error:
            if self._program is None and isinstance(error, HutchError):
                while self._state.status != "ended":  # it has ended meanwhile, or was lost
                    await self._changed.wait()
                return
            text = program.error_text
            reason = self._clean(f"{error} {text}".strip()) if isinstance(error, HutchError) else "cancelled"
            await self._end(f"it could not be started: {reason}", by=HUTCH)
            if isinstance(error, HutchError):
                raise Unavailable(f"The debugger could not be started: {reason}") from None
            raise
        if self._state.status == "starting":
            self._set(status="running")

    async def _on_stop(self, stop: Stop) -> None:
        """Note that the program has stopped."""
        number = self._state.stop + 1
        self._set(
            status="stopped",
            stop=number,
            reason=stop.reason,
            text=stop.text,
            thread=stop.thread,
            threads=stop.threads,
            frames=stop.frames,
        )
        self._touch()
        await self._recorder.append([stop.as_event(self._state.id, number)])

    async def _on_end(self, exit_code: int | None, reason: str) -> None:
        """Note that the program has ended by itself."""
        await self._end(reason or "the program ended", by="", exit_code=exit_code)

    async def _end(self, reason: str, *, by: str, exit_code: int | None = None) -> None:
        program, self._program = self._program, None
        if program is None:
            return
        if self._idle is not None:
            self._idle.cancel()
        await program.close()
        self._live.activity.end(("debugger", self._state.id))
        self._take_snapshot(AFTER)
        for stream in ("stdout", "stderr"):
            self._output.end((self._state.id, stream))
        event = DebugEnded(
            debug=self._state.id,
            reason=reason,
            exit_code=exit_code,
            stops=self._state.stop,
            duration_s=round(time.monotonic() - self._began, 3),
            by=by,
        )
        try:
            await self._recorder.append([event])
        finally:
            self._set(status="ended", frames=(), threads=(), reason=reason, text="", exit_code=exit_code)

    def _print(self, stream: str, data: bytes) -> None:
        debug, driver = self._state.id, self._state.driver

        def make(text: str, skipped: int) -> Event:
            return DebugPrinted(debug=debug, stream=stream, text=text, skipped_bytes=skipped, by=driver)

        self._output.add((debug, stream), data, make)

    # --- state ---

    def _stopped(self) -> DebuggedProgram:
        if self._program is None:
            raise Conflict("No debugger runs. Start one.")
        if self._state.status != "stopped":
            raise Conflict(
                f"The program is {self._state.status}. Its variables can be read while it is stopped."
            )
        return self._program

    def _driven(self, by: str) -> DebuggedProgram:
        if self._program is None:
            raise Conflict("No debugger runs. Start one.")
        if by != self._state.driver:
            raise Denied("Another user drives the debugger. Take over first.")
        return self._program

    def _set(self, **changes: Any) -> None:
        self._state = replace(self._state, **changes)
        self._announce()

    def _announce(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _wait(self, wait_s: float, after: int) -> DebuggerState:
        """The state, once the program has stopped again or ended, or after this time."""
        if wait_s > 0:
            try:
                async with asyncio.timeout(wait_s):
                    while self._state.status in ("starting", "running") or (
                        self._state.status == "stopped" and self._state.stop <= after
                    ):
                        await self._changed.wait()
            except TimeoutError:
                return self.state
        return self.state

    def _touch(self) -> None:
        """Note that the debugger is in use. A stopped program is ended some time after its last use."""
        self._used_at = time.monotonic()
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(self._idle_s, self._expire)

    def _expire(self) -> None:
        if self._program is not None and self._state.status == "stopped":
            self._run(self._end(f"nobody used it for {self._idle_s:g} s", by=HUTCH))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _clean(self, text: str) -> str:
        return self._recorder.redactor.redact(text)
