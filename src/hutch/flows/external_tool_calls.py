"""Performs tool calls of external callers: each is logged, with a snapshot of its changes.

The caller is not an agent of Hutch and its calls make no run, but they are in the log, each
with its result. No answer contains a secret that Hutch knows.
"""

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from hutch.agent.session_recorder import Recorder
from hutch.agent.tool_call_permission_decision import Approvals
from hutch.agent.tool_call_rules import Policy
from hutch.agent.tool_execution import image_event
from hutch.agent.tools.interface import Arguments, Context, ToolResult
from hutch.agent.tools.model_written_paths import escape_surrogates
from hutch.agent.tools.tool_schemas_and_dispatch import Toolbox
from hutch.domain.current_actor_and_author import AGENT, Actor, acting
from hutch.domain.errors import HutchError
from hutch.domain.events import Event, SessionEnded, SessionOpened, ToolCalled, ToolReturned
from hutch.llm.interface import Call
from hutch.sessions.file_change_recorder import ChangeRecorder
from hutch.system.lazy_dataclass import dataclass
from hutch.system.task_cancellation import cancel_and_wait
from hutch.system.uncancellable_work import run_to_end

NO_RUN = ""  # the run of an external call
COMMANDS = ("bash", "exec", "run_tests")  # tools that may change any file
MAX_CALLERS = 256  # whose read files are remembered
CANCELLED = "It was cancelled by the caller."
FAILED = "It failed in a way that Hutch did not expect; the server's log says where."


@dataclass(slots=True)
class Tools:
    """Tools on one workspace, with the log of their session. The code that opens them closes them."""

    toolbox: Toolbox
    context: Context
    recorder: Recorder
    changes: ChangeRecorder | None = None  # None: the changes of files are not recorded
    approvals: Approvals = field(default_factory=lambda: Approvals(Policy()))  # nobody can be asked
    _contexts: dict[str, Context] = field(default_factory=dict)  # by caller, the latest caller last
    _calls: set["asyncio.Task[ToolResult]"] = field(default_factory=set)
    _made: int = 0
    _snapshot: int = 0

    async def call(self, name: str, arguments: Mapping[str, Any], *, caller: str = "") -> ToolResult:
        """Use a tool. An invalid call gives a result too. A caller that disconnects cancels its call."""
        # In a separate task: a caller may be cancelled repeatedly, while the end of a command takes time.
        task = asyncio.create_task(self._call(name, arguments, self._context(caller)))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            raise

    async def begin(self, purpose: str) -> None:
        await self.recorder.append([SessionOpened(purpose=self._text(purpose))])

    async def stop(self) -> None:
        """Cancel all calls in progress."""
        await cancel_and_wait(*self._calls)

    async def end(self) -> None:
        """After the jail was closed, take a last snapshot and end the session in the log."""
        try:
            kept, reason = await self._take_snapshot_if_changed("after the last call"), ""
        except HutchError as error:
            kept, reason = [], self._text(f"No last snapshot was taken: {error}")
        await self.recorder.settle()
        await self.recorder.append([*kept, SessionEnded(outcome="done", reason=reason)])

    def _context(self, caller: str) -> Context:
        """The context of a caller. Only the files it has read are its own; others may not have read them."""
        context = self._contexts.pop(caller, None) or replace(self.context, read={})
        self._contexts[caller] = context
        if len(self._contexts) > MAX_CALLERS:
            del self._contexts[next(iter(self._contexts))]
        return context

    async def _call(self, name: str, arguments: Mapping[str, Any], context: Context) -> ToolResult:
        self._made += 1
        call_id, began, text = f"call_{self._made}", time.monotonic(), json.dumps(arguments)
        called = ToolCalled(run_id=NO_RUN, call_id=call_id, tool=self._text(name), arguments=self._text(text))
        await self.recorder.append([called])
        result = ToolResult(FAILED, ok=False)
        try:
            with acting(Actor(AGENT, "tool", call_id, call_id)):
                result = await self._use(call_id, name, text, context)
        except asyncio.CancelledError:
            result = ToolResult(CANCELLED, ok=False)
            raise
        finally:
            duration_s = round(time.monotonic() - began, 6)
            result = await run_to_end(self._settle(name, call_id, result, duration_s))
        return result

    async def _use(self, call_id: str, name: str, text: str, context: Context) -> ToolResult:
        given = self.toolbox.parse(name, text)
        if isinstance(given, Arguments):
            refusal = await self.approvals.check(Call(call_id, name, text), given, self._write)
            given = refusal or await self._prepare(name) or await self.toolbox.use(name, given, context)
        elif not given.data:
            given = replace(given, data={"error": "bad_request"})
        return given

    async def _write(self, *events: Event) -> None:
        await self.recorder.append(events)

    async def _prepare(self, name: str) -> ToolResult | None:
        """Take a snapshot before a command, as the workspace does before an edit: users work here too.

        Changes are recorded from the first call on that may make any.
        """
        is_first = self.changes is not None and not self.changes.recorded and not self.toolbox.parallel(name)
        if name in COMMANDS or is_first:
            try:
                kept = await self._take_snapshot_if_changed(f"before {name}")
                if is_first and self.changes is not None:
                    await self.changes.start(0, is_new=True)
                await self.recorder.append(kept if name in COMMANDS else ())
            except HutchError as error:
                return ToolResult(str(error), ok=False, data={"error": error.code})
        return None

    async def _settle(self, name: str, call_id: str, result: ToolResult, duration_s: float) -> ToolResult:
        """Snapshot and log the changes of a call, however it ended."""
        facts: list[Event] = []
        if result.image is not None:
            facts.append(image_event(NO_RUN, call_id, result.image, with_data=False))
        if name in self.toolbox and not self.toolbox.parallel(name):
            try:
                facts += await self._take_snapshot_if_changed(f"after {name}")
            except HutchError as error:
                result = replace(
                    result, text=f"{result.text}\n[No snapshot was taken: {self._text(str(error))}]"
                )
        returned = ToolReturned(
            run_id=NO_RUN,
            call_id=call_id,
            tool=self._text(name),
            ok=result.ok,
            text=result.text,
            duration_s=duration_s,
            rule=result.data.get("rule", ""),
            rule_source=result.data.get("rule_source", ""),
        )
        await self.recorder.append([*facts, returned])
        return result

    async def _take_snapshot_if_changed(self, reason: str) -> list[Event]:
        """Take a snapshot, if anything has changed since the last one."""
        taken = await self.context.workspace.snapshot(reason)
        if taken.id == self._snapshot:
            return []
        self._snapshot = taken.id
        return [self.recorder.snapshot_taken(taken, by=AGENT)]

    def _text(self, text: str) -> str:
        """The text without secrets and in valid UTF-8: file names may contain any bytes."""
        return self.recorder.redactor.redact(escape_surrogates(text))
