"""Executes tool calls: each is checked against the rules, made, and recorded with its result."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace

from hutch.agent.agent_notes_in_subdirectories import find_nested_notes
from hutch.agent.hooks.hook_runner import mark_hook_text
from hutch.agent.repetition_guard import LoopGuard
from hutch.agent.repository_testing.files_changed_by_tests import ChangedFiles
from hutch.agent.run_setup import RunSetup
from hutch.agent.tool_call_permission_decision import Approvals, named_paths
from hutch.agent.tools.interface import Arguments, Context, ImageResult, ToolResult
from hutch.agent.tools.tool_schemas_and_dispatch import Toolbox
from hutch.domain.current_actor_and_author import AGENT, Actor, acting
from hutch.domain.events import Event, ImageLoaded, MessageSent, StepReached, ToolCalled, ToolReturned
from hutch.llm.interface import Call
from hutch.snapshots.git_storage import Snapshot
from hutch.system.lazy_dataclass import dataclass

Write = Callable[..., Awaitable[None]]  # takes events; they are in the log when it returns


@dataclass(slots=True)
class ToolExecution:
    """Makes the calls of a run, and tracks their effects."""

    run_id: str
    setup: RunSetup
    context: Context
    approvals: Approvals
    write: Write
    snapshot: int  # the newest
    tests_ok: bool | None = None  # of the last complete test run; None when files may have changed since
    tests_reason: str = ""  # why they did not pass
    tested: Snapshot | None = None  # the state that those tests ran on and did not change
    conclusion: ToolResult | None = None  # the result of finish, or the last reply
    stuck: str = ""  # why continuing is useless
    changed_files: ChangedFiles = field(default_factory=ChangedFiles)
    guard: LoopGuard = field(default_factory=LoopGuard)
    _has_worked: bool = False  # a call was made that does not only read

    @property
    def toolbox(self) -> Toolbox:
        return self.setup.toolbox

    @property
    def may_have_written(self) -> bool:
        """True if the agent or a hook may have changed files."""
        return self._has_worked or bool(self.setup.agent) or self.setup.hooks is not None

    async def use(self, calls: Sequence[Call]) -> None:
        """Make calls in order; neighbours that only read run concurrently."""
        group: list[Call] = []
        for call in calls:
            if group and not (self.toolbox.parallel(call.tool) and self.toolbox.parallel(group[-1].tool)):
                await self._use_together(group)
                group = []
            group.append(call)
        await self._use_together(group)

    def returned(self, call: Call, result: ToolResult, duration_s: float = 0.0) -> ToolReturned:
        """The event of a result, with a warning for a model that repeats itself."""
        warning, stop = self.guard.record(call.tool, call.arguments, result.text, ok=result.ok)
        if stop:
            self.stuck = f"It repeated itself: {call.tool} gave the same result again and again."
        return ToolReturned(
            run_id=self.run_id,
            call_id=call.id,
            tool=call.tool,
            ok=result.ok,
            text=f"{result.text}\n\n{warning}".strip() if warning else result.text,
            duration_s=round(duration_s, 6),
            rule=result.data.get("rule", ""),
            rule_source=result.data.get("rule_source", ""),
        )

    async def _use_together(self, calls: Sequence[Call]) -> None:
        await self.write(
            *(
                ToolCalled(run_id=self.run_id, call_id=call.id, tool=call.tool, arguments=call.arguments)
                for call in calls
            )
        )
        for call, (result, duration_s) in zip(calls, await self._results(calls), strict=True):
            facts = [*self._facts(call, result), *await self._snapshot_after(call)]
            await self.write(*facts, self.returned(call, result, duration_s))

    async def _results(self, calls: Sequence[Call]) -> list[tuple[ToolResult, float]]:
        if len(calls) == 1:
            return [await self._use_one(calls[0])]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._use_one(call)) for call in calls]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None  # one is enough to end the run
        return [task.result() for task in tasks]

    async def _use_one(self, call: Call) -> tuple[ToolResult, float]:
        began = time.monotonic()
        parsed = self.toolbox.parse(call.tool, call.arguments)
        if isinstance(parsed, Arguments):
            if call.tool == "run_tests":
                self.tested = await self.context.workspace.snapshot("before run_tests")
            with acting(Actor(AGENT, "tool", call.id, call.id)):
                refusal = await self._blocked_by_hook(call, parsed)
            refusal = refusal or await self.approvals.check(call, parsed, self.write)
            with acting(Actor(AGENT, "tool", call.id, call.id)):
                result = refusal or await self._use_with_notes(call.tool, parsed)
                if refusal is None:
                    result = await self._with_hooks(call, parsed, result)
        else:
            result = parsed
        if call.tool == "finish" and result.ok:
            self.conclusion = result
        return result, time.monotonic() - began

    async def _blocked_by_hook(self, call: Call, args: Arguments) -> ToolResult | None:
        """The refusal of a hook, if one blocks the call."""
        if self.setup.hooks is None:
            return None
        given = args.model_dump(mode="json", exclude_defaults=True)
        outcome = await self.setup.hooks.before_tool(call.tool, given, self.context, self.warn)
        return ToolResult(outcome.blocked, ok=False, data={"error": "denied"}) if outcome.blocked else None

    async def _with_hooks(self, call: Call, args: Arguments, result: ToolResult) -> ToolResult:
        """The result, with what hooks say about it."""
        if self.setup.hooks is None:
            return result
        given = args.model_dump(mode="json", exclude_defaults=True)
        outcome = await self.setup.hooks.after_tool(call.tool, given, result.text, self.context, self.warn)
        said = outcome.blocked or outcome.text
        return replace(result, text=f"{result.text}\n\n{mark_hook_text(said)}") if said else result

    async def is_sent_back(self) -> bool:
        """True if a hook has sent an agent that was done back to work."""
        if self.setup.hooks is None:
            return False
        outcome = await self.setup.hooks.on_stop(self.context, self.warn)
        if outcome.blocked:
            await self.write(MessageSent(author="hutch", text=mark_hook_text(outcome.blocked)))
        return bool(outcome.blocked)

    async def warn(self, problem: str) -> None:
        """Show a problem to the followers of the session."""
        message = self.setup.redactor.redact(f"warning: {problem}")
        await self.write(StepReached(step="inspecting", message=message, run_id=self.run_id))

    async def _use_with_notes(self, tool: str, args: Arguments) -> ToolResult:
        """Make a call; its result has the notes for the directories that it is the first to touch."""
        result = await self.toolbox.use(tool, args, self.context)
        notes = await find_nested_notes(named_paths(args), self.context)
        return replace(result, text=f"{result.text}\n\n{notes}") if notes else result

    def _facts(self, call: Call, result: ToolResult) -> list[Event]:
        """The events of a call besides its result and the changed files. Tests are in the log already."""
        if tests := result.data.get("tests"):
            partial = result.data.get("partial", False)
            self.tests_ok = None if partial and tests["ok"] else bool(tests["ok"])
            self.tests_reason = str(tests["reason"] or result.data.get("failing", ""))
        if result.image is not None:
            return [image_event(self.run_id, call.id, result.image, with_data=True)]
        return []

    async def _snapshot_after(self, call: Call) -> list[Event]:
        """A snapshot after a call that changed files."""
        if self.toolbox.parallel(call.tool) or call.tool in ("finish", "ask_user"):
            return []
        self._has_worked = True
        # The model makes up the name of a tool that does not exist; it may hold anything.
        tool = call.tool if call.tool in self.toolbox else "a call of no tool"
        taken = await self.context.workspace.snapshot(f"after {tool}")
        if call.tool == "run_tests" and self.tests_ok and self.tested is not None:
            if await self.changed_files.between(self.context.workspace, self.tested, taken):
                self.tests_ok = None
            self.tested = taken
        if taken.id == self.snapshot:
            return []
        self.snapshot = taken.id
        self.guard.reset()
        if call.tool != "run_tests":
            self.tests_ok = None
        return [self.setup.recorder.snapshot_taken(taken, f"after {tool}", by=AGENT)]


def image_event(run_id: str, call_id: str, image: ImageResult, *, with_data: bool) -> ImageLoaded:
    """The event of an image that was read; its content is needed only where a conversation is continued."""
    return ImageLoaded(
        run_id=run_id,
        call_id=call_id,
        path=image.path,
        media_type=image.header.media_type,
        size=image.size,
        width=image.header.width,
        height=image.header.height,
        sha256=image.sha256,
        data=image.data if with_data else "",
    )
