"""One go of an agent at a prompt: ask the model, use the tools it wants, tell it what came of them.

Everything that happens is in the log before the next thing happens, and what the
model sees is made from the log. So a run that was killed goes on where it was:
a call that had returned is not made again, and one that was under way is told to
the model as that.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hutch.agent.approval import Approvals
from hutch.agent.asking import OnDelta, ask, replied
from hutch.agent.compaction import due, possible, summarised
from hutch.agent.conversation import INTERRUPTED, Conversation
from hutch.agent.guard import LoopGuard
from hutch.agent.limits import RunLimits, Spent, too_long
from hutch.agent.plain import whole
from hutch.agent.testing.report import Report
from hutch.agent.tools.seam import Arguments, Context, ToolResult
from hutch.agent.tools.toolbox import Toolbox
from hutch.domain.errors import HutchError, LimitReached
from hutch.domain.events import (
    ContextCompacted,
    Event,
    FileChanged,
    MessageSent,
    RanTests,
    RunEnded,
    SnapshotTaken,
    ToolCalled,
    ToolReturned,
)
from hutch.domain.redaction import Redactor
from hutch.llm.price import cost_usd
from hutch.llm.reply import Reply
from hutch.llm.seam import Call, FromModel, Model, Request

Outcome = Literal["done", "tests_failing", "limit_reached", "cancelled", "failed"]
Append = Callable[[Sequence[Event]], Awaitable[int]]  # durable when it returns; the log's last number
Verify = Callable[[], Awaitable[Report | None]]
GO_ON = "Go on with the task, or call finish when it is done."
RESUMED = "I was stopped and started again. The shell is a new one, and no command runs in the background."


@dataclass(slots=True)
class Run:
    """What a run needs, and what it knows so far."""

    run_id: str
    model: Model
    toolbox: Toolbox
    context: Context
    system: str
    limits: RunLimits
    approvals: Approvals
    append: Append
    redactor: Redactor
    on_delta: OnDelta = lambda delta: None
    conversation: Conversation = field(default_factory=Conversation)
    spent: Spent = field(default_factory=Spent)
    told: list[Event] = field(default_factory=list)  # by the jail, to be logged with the next thing
    inbox: list[str] = field(default_factory=list)  # what people said meanwhile
    verify: Verify | None = None  # the last word, when the tests were not run since the last change
    tests_ok: bool | None = None  # of the last whole run of the tests since anything could have changed
    verdict: Report | None = None  # what the last word was
    conclusion: ToolResult | None = None  # what the model finished with
    snapshot: int = 0  # the newest
    _first: int = 0  # the snapshot before it all
    _guard: LoopGuard = field(default_factory=LoopGuard)
    _stuck: str = ""

    def __post_init__(self) -> None:
        self._first = self.snapshot
        self.approvals.roots = (self.context.jail.workspace, *self.context.jail.policy.also_at)

    async def go(self) -> RunEnded:
        """Work until it is done, cannot go on, or is cancelled; however it ends, the log says so."""
        left_s = None if self.limits.timeout_s is None else self.limits.timeout_s - self.spent.duration_s
        try:
            async with asyncio.timeout(left_s):
                outcome, reason = await self._work()
        except TimeoutError:
            outcome, reason = "limit_reached", too_long(self.limits.timeout_s or 0)
        except HutchError as error:
            outcome, reason = "failed", str(error)
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.ensure_future(self._end("cancelled", "It was cancelled.")))
            raise
        except Exception as error:
            await self._end("failed", f"Hutch itself failed: {type(error).__name__}. This is a fault of it.")
            raise
        return await self._end(outcome, reason)

    async def _work(self) -> tuple[Outcome, str]:
        await self._settle()
        while True:
            if self.conclusion is not None:
                return await self._conclude()
            if sentence := self._stuck or self.spent.over(self.limits):
                return "limit_reached", sentence
            await self._listen()
            if due(self.conversation, self.model):
                await self._compact()
            reply = await self._ask()
            if reply.calls:
                await self._use(reply.calls)
            elif reply.finish == "length":
                await self._write(MessageSent(author="hutch", text=f"Your reply was cut off. {GO_ON}"))
            elif reply.finish == "refused":
                return "failed", f"{self.model.name} refuses to go on. {reply.text}".strip()
            else:
                self.conclusion = ToolResult(reply.text)

    async def _conclude(self) -> tuple[Outcome, str]:
        if self.tests_ok is None and self.verify is not None:
            self.verdict = await self.verify()
            self.tests_ok = self.verdict.ok if self.verdict else None
        return ("tests_failing", "The tests fail.") if self.tests_ok is False else ("done", "")

    async def _ask(self) -> Reply:
        """The next reply; when the conversation is too long after all, that of a shorter one."""
        try:
            return await self._ask_once()
        except LimitReached as error:
            if error.limit != "context" or not possible(self.conversation):
                raise
        await self._compact()
        return await self._ask_once()

    async def _ask_once(self) -> Reply:
        began = time.monotonic()
        request = Request(self.system, tuple(self.conversation.messages), self.toolbox.specs)
        reply = await ask(self.model, request, self.redactor, self.on_delta)
        event = replied(self.run_id, self.spent.turns + 1, self.model, reply, began)
        self.spent.add(reply.usage, event.cost_usd)
        await self._write(event)
        return reply

    async def _compact(self) -> None:
        """Make the conversation short."""
        changed = await self.context.workspace.changes(self._first, self.snapshot)
        files = {each.path: "changed" for each in changed} | self.conversation.files
        specs = self.toolbox.specs
        made = await summarised(self.conversation, self.model, self.system, specs, files)
        price = cost_usd(self.model.name, made.usage)
        self.spent.pay(made.usage, price)
        await self._write(
            ContextCompacted(
                run_id=self.run_id,
                upto_seq=self.conversation.seq,
                summary=self.redactor.clean(whole(made.text)),
                tokens_before=made.tokens_before,
                tokens_after=made.tokens_after,
                input_tokens=made.usage.input,
                cached_tokens=made.usage.cached,
                output_tokens=made.usage.output,
                cost_usd=price,
            )
        )

    async def _settle(self) -> None:
        """After a crash: what was under way is told as that, what was not begun is done now."""
        past = self.conversation
        if not any(isinstance(message, FromModel) for message in past.messages) and not past.summary:
            return
        for call in past.granted:
            if isinstance(given := self.toolbox.parse(call.tool, call.arguments), Arguments):
                self.approvals.remember(call.tool, given)
        for call in [call for call in past.waiting.values() if call.id in past.begun]:
            await self._write(self._returned(call, ToolResult(INTERRUPTED, ok=False), 0.0))
        if past.waiting:
            await self._use(tuple(past.waiting.values()))
        match past.last:
            case Call() as call if self.conclusion is None:
                given = self.toolbox.parse(call.tool, call.arguments)
                if isinstance(given, Arguments):
                    self.conclusion = await self.toolbox.use(call.tool, given, self.context)
            case str() as text:
                self.conclusion = ToolResult(text)
        if self.conclusion is None:
            await self._write(MessageSent(author="hutch", text=RESUMED))

    async def _use(self, calls: Sequence[Call]) -> None:
        """Use tools in order; neighbours that only read run side by side."""
        group: list[Call] = []
        for call in calls:
            if group and not (self.toolbox.parallel(call.tool) and self.toolbox.parallel(group[-1].tool)):
                await self._use_together(group)
                group = []
            group.append(call)
        await self._use_together(group)

    async def _use_together(self, calls: Sequence[Call]) -> None:
        await self._write(
            *(
                ToolCalled(run_id=self.run_id, call_id=call.id, tool=call.tool, arguments=call.arguments)
                for call in calls
            )
        )
        for call, (result, duration_s) in zip(calls, await self._results(calls), strict=True):
            facts = [*self._facts(call, result), *await self._kept(call)]
            await self._write(*facts, self._returned(call, result, duration_s))

    async def _results(self, calls: Sequence[Call]) -> list[tuple[ToolResult, float]]:
        if len(calls) == 1:
            return [await self._use_one(calls[0])]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._use_one(call)) for call in calls]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None  # one is enough to end the run, and has a message
        return [task.result() for task in tasks]

    async def _use_one(self, call: Call) -> tuple[ToolResult, float]:
        began = time.monotonic()
        given = self.toolbox.parse(call.tool, call.arguments)
        if isinstance(given, Arguments):
            refusal = await self.approvals.check(call, given, self._write)
            given = refusal or await self.toolbox.use(call.tool, given, self.context)
        if call.tool == "finish" and given.ok:
            self.conclusion = given
        return given, time.monotonic() - began

    def _facts(self, call: Call, result: ToolResult) -> list[Event]:
        """What happened in a call beside its result."""
        facts: list[Event] = [
            FileChanged(
                path=change.path,
                kind=change.kind,
                before=change.before,
                after=change.after,
                moved_from=change.moved_from,
                call_id=call.id,
            )
            for change in result.changes
        ]
        if tests := result.data.get("tests"):
            partial = result.data.get("partial", False)
            self.tests_ok = None if partial and tests["ok"] else bool(tests["ok"])
            facts.append(RanTests(run_id=self.run_id, **tests))
        return facts

    async def _kept(self, call: Call) -> list[Event]:
        """A snapshot after whatever may have changed something, if it did."""
        if self.toolbox.parallel(call.tool) or call.tool in ("finish", "ask_user"):
            return []
        taken = await self.context.workspace.snapshot(f"after {call.tool}")
        if taken.id == self.snapshot:
            return []
        self.snapshot = taken.id
        self._guard.changed()
        if call.tool != "run_tests":
            self.tests_ok = None
        return [SnapshotTaken(snapshot=taken.id, tree=taken.tree, reason=taken.reason)]

    def _returned(self, call: Call, result: ToolResult, duration_s: float) -> ToolReturned:
        word, stop = self._guard.seen(call.tool, call.arguments, result.text, ok=result.ok)
        if stop:
            self._stuck = f"It went in circles: {call.tool} gave the same result again and again."
        return ToolReturned(
            run_id=self.run_id,
            call_id=call.id,
            tool=call.tool,
            ok=result.ok,
            text=f"{result.text}\n\n{word}".strip() if word else result.text,
            duration_s=round(duration_s, 6),
        )

    async def _listen(self) -> None:
        """Hear what people have said meanwhile."""
        said, self.inbox[:] = list(self.inbox), []
        if said:
            self._guard.changed()
            await self._write(*(MessageSent(author="user", text=self.redactor.clean(text)) for text in said))

    async def _write(self, *events: Event) -> None:
        """Into the log, and from there into the conversation."""
        told, self.told[:] = [self._clean(event) for event in self.told], []
        last = await self.append([*told, *events])
        for place, event in enumerate(events, start=last - len(events) + 1):
            self.conversation.apply(event, place)

    def _clean(self, event: Event) -> Event:
        """What the jail tells of commands, without secrets and halves of letters."""
        texts = {
            name: self.redactor.clean(whole(value))
            for name, value in event.__dict__.items()
            if isinstance(value, str)
        }
        return event.model_copy(update=texts)

    async def _end(self, outcome: Outcome, reason: str) -> RunEnded:
        ended = RunEnded(
            run_id=self.run_id,
            outcome=outcome,
            reason=reason,
            turns=self.spent.turns,
            input_tokens=self.spent.usage.input,
            cached_tokens=self.spent.usage.cached,
            output_tokens=self.spent.usage.output,
            cost_usd=self.spent.cost,
            duration_s=round(self.spent.duration_s, 3),
        )
        await self._write(ended)
        return ended
