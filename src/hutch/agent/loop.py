"""One run of the agent: ask the model, make the tool calls of its reply, send it the results.

Every event is in the log before the next step, and the model's messages are built
from the log. So a killed run resumes where it stopped: a call that had returned is
not made again, and a call that was in progress is reported to the model as
interrupted.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, Literal, ParamSpec, TypeVar

import structlog

from hutch.agent.compaction import can_compact, needs_compaction, summarise
from hutch.agent.conversation import INTERRUPTED, Conversation
from hutch.agent.model_call import FirstToken, ask, replied
from hutch.agent.repository_testing.test_results import Report
from hutch.agent.run_budget import BudgetOfRun, Spent, too_long
from hutch.agent.run_setup import RunSetup, UserMessage
from hutch.agent.text_for_model import without_surrogates
from hutch.agent.tool_call_permission_decision import Approvals
from hutch.agent.tool_execution import ToolExecution
from hutch.agent.tools.ask_user_and_finish import ASK_USER, answer_result
from hutch.agent.tools.delegate import DELEGATE
from hutch.agent.tools.interface import Arguments, Context, ToolResult
from hutch.agent.tools.model_written_paths import escape_surrogates, resolve_path
from hutch.domain.current_actor_and_author import AGENT
from hutch.domain.errors import BudgetReached, HutchError, LimitReached, Unavailable
from hutch.domain.events import ContextCompacted, Event, MessageSent, RunEnded
from hutch.domain.no_model_messages import no_model_reason
from hutch.llm.interface import Call, FromModel, Request
from hutch.llm.reply_builder import Reply
from hutch.llm.reply_cost import cost_usd
from hutch.snapshots.git_storage import Snapshot
from hutch.system.lazy_dataclass import dataclass
from hutch.system.uncancellable_work import wait_until_done

Outcome = Literal["done", "tests_failing", "limit_reached", "cancelled", "failed"]
Params = ParamSpec("Params")
T = TypeVar("T")
Verify = Callable[[], Awaitable[Report | None]]
CONTINUE = "Continue with the task, or call finish when it is done."
MAX_VERIFICATIONS = 2  # tests may create files when first run; a second run rarely changes them
UNANSWERED = "It was waiting for a user's answer."
FAILING = "I ran the tests when you were done, and they do not pass."
STOPPED, LAST = "when the run was stopped", "after the run"
RESUMED = "I was stopped and started again. The shell is new, and no command runs in the background."
logger = structlog.get_logger()


@dataclass(slots=True)
class Run:
    """One run: its setup and its state."""

    run_id: str
    setup: RunSetup
    system: str
    conversation: Conversation = field(default_factory=Conversation)
    spent: Spent = field(default_factory=Spent)
    describe: Callable[[RunSetup], str] | None = None  # the system prompt for a changed setup
    verify: Verify | None = None  # runs the tests at the end, if they were not run since the last change
    verdict: Report | None = None  # the result of `verify`
    snapshot: int = 0  # the one from before the run
    resumed: bool = False  # it was stopped and started again, with new shells
    has_model: bool = True  # False: the offline script replies in its place, and the run is no success
    last: Snapshot | None = None  # the final state, on which the tests were run
    context: Context = field(init=False)
    approvals: Approvals = field(init=False)
    execution: ToolExecution = field(init=False)
    _clock: asyncio.Timeout | None = None
    _waiting: bool = False  # for a user

    def __post_init__(self) -> None:
        setup, jail = self.setup, self.setup.context.jail
        self.context = replace(
            setup.context,
            run_id=self.run_id,
            ask=self._timed(self._ask_user if setup.context.ask else None),
            hides=lambda tool, path: self.approvals.policy.hides(tool, path),
            budget=BudgetOfRun(self.spent, lambda: self.setup.limits),
        )
        self.approvals = Approvals(
            setup.policy,
            ask=self._timed(setup.approve),
            save_rules=setup.save_rules,
            roots=(jail.workspace, *jail.policy.also_at),
            resolve=partial(resolve_path, context=self.context),
            note=setup.note_decision,
            refresh=self._read_extended_approvals,
        )
        self.execution = ToolExecution(
            self.run_id, setup, self.context, self.approvals, self._write, self.snapshot
        )

    async def execute(self) -> RunEnded:
        """Work until the task is done, the run fails or is cancelled; the log records every kind of end."""
        code = ""
        try:
            async with asyncio.timeout(self._remaining_s()) as self._clock:
                outcome, reason = await self._work()
        except TimeoutError:
            outcome, reason = "limit_reached", too_long(self.setup.limits.timeout_s or 0)
            if self._waiting:
                reason = f"{reason} {UNANSWERED}"
        except HutchError as error:
            outcome = "limit_reached" if isinstance(error, BudgetReached) else "failed"
            reason = self.setup.redactor.redact(escape_surrogates(str(error)))
            code = error.code
        except asyncio.CancelledError:
            self.last = None
            await wait_until_done(asyncio.ensure_future(self._record_last_snapshot(STOPPED)))
            if self.setup.leaves_open():
                raise
            await self._end("cancelled", "It was cancelled.")
            raise
        except Exception as error:
            await self._end("failed", f"Hutch itself failed: {type(error).__name__}. This is a bug in Hutch.")
            raise
        return await self._end(outcome, reason, code)

    async def _record_last_snapshot(self, reason: str = LAST) -> None:
        """Record the final state before the end of the run, so that changes of an interrupted call count as
        work of this run."""
        try:
            if self.last is None:
                self.last = await self.context.workspace.snapshot(reason)
            if self.last.id != self.execution.snapshot:
                self.execution.snapshot = self.last.id
                await self._write(self.setup.recorder.snapshot_taken(self.last, by=AGENT))
        except HutchError as error:  # the run ends anyway
            logger.warning("run.ended_without_snapshot", run_id=self.run_id, error=str(error))

    def _remaining_s(self) -> float | None:
        return (
            None
            if self.setup.limits.timeout_s is None
            else self.setup.limits.timeout_s - self.spent.duration_s
        )

    def _timed(self, ask: Callable[Params, Awaitable[T]] | None) -> Callable[Params, Awaitable[T]] | None:
        """Stop the clock while a user's answer is awaited, unless that time counts towards the timeout."""
        if ask is None:
            return None

        async def wait_counted(*args: Params.args, **kwargs: Params.kwargs) -> T:
            self._waiting = True
            answer = await ask(*args, **kwargs)
            self._waiting = False
            return answer

        async def wait(*args: Params.args, **kwargs: Params.kwargs) -> T:
            began = time.monotonic()
            if self._clock is not None:
                self._clock.reschedule(None)
            try:
                return await ask(*args, **kwargs)
            finally:
                self.spent.waited_s += time.monotonic() - began
                remaining_s = self._remaining_s()
                if self._clock is not None and remaining_s is not None:
                    self._clock.reschedule(asyncio.get_running_loop().time() + remaining_s)

        return wait_counted if self.setup.counts_waiting else wait

    async def _work(self) -> tuple[Outcome, str]:
        await self._resume_calls()
        while True:
            is_finished = self.execution.conclusion is not None and not self.setup.inbox
            if is_finished and not await self.execution.is_sent_back():
                return await self._conclude()
            self.execution.conclusion = None  # a user has sent another message
            await self._apply_changes()
            if sentence := self.execution.stuck or self.spent.describe_reached(self.setup.limits):
                return "limit_reached", sentence
            await self._read_inbox()
            if needs_compaction(self.conversation, self.setup.model):
                await self._compact()
            reply = await self._ask()
            if reply.calls:
                await self.execution.use(reply.calls)
            elif reply.finish == "length":
                await self._write(MessageSent(author="hutch", text=f"Your reply was cut off. {CONTINUE}"))
            elif reply.finish == "refused":
                return "failed", f"{self.setup.model.name} refuses to continue. {reply.text}".strip()
            else:
                self.execution.conclusion = ToolResult(reply.text)

    async def _apply_changes(self) -> None:
        """Take over the options that a user has changed since the last turn."""
        changed = await self.setup.refresh() if self.setup.refresh else None
        if changed is None:
            return
        self.setup = self.execution.setup = changed
        self.system = self.describe(changed) if self.describe else self.system
        self.approvals.policy = changed.policy
        await self._restore_approvals()
        remaining_s = self._remaining_s()
        if self._clock is not None:
            now = asyncio.get_running_loop().time()
            self._clock.reschedule(None if remaining_s is None else now + max(0.0, remaining_s))
        await self._write(changed.changed_event(self.run_id, self.spent.turns + 1))

    async def _conclude(self) -> tuple[Outcome, str]:
        """Decide the outcome by the tests, and deliver exactly the files that were tested.

        Since the tests last ran, a background command or the tests may have written to the workspace.
        """
        work, passed = self.context.workspace, self.execution.tests_ok
        self.last = await work.snapshot("when the agent was done")
        tested, changed_files = self.execution.tested, self.execution.changed_files
        if passed and (tested is None or await changed_files.since(work, tested, self.last)):
            passed = None
        changed: list[str] = []
        for _ in range(MAX_VERIFICATIONS):
            if passed is not None or self.verify is None:
                break
            before = self.last
            self.verdict = await self.verify()
            passed = self.verdict.ok if self.verdict else None
            self.last = await work.snapshot("when the agent was done")
            changed = await changed_files.between(work, before, self.last) if passed else []
            if not changed:
                break
            passed = None
        if passed is False:
            reason = self.execution.tests_reason
            if self.verdict:
                reason = self.verdict.reason or self.verdict.failing
                await self._write(MessageSent(author="hutch", text=f"{FAILING}\n{self.verdict.text()}"))
            return "tests_failing", reason or "The tests fail."
        if changed:
            named = ", ".join(map(escape_surrogates, changed[:3])) + (" and more" if changed[3:] else "")
            return "tests_failing", (
                f"The tests pass, but files change while they run ({named}): the final files are untested."
            )
        return "done", ""

    async def _ask(self) -> Reply:
        """The next reply; when the provider finds the conversation too long, compact it and ask again."""
        try:
            return await self._ask_once()
        except LimitReached as error:
            if error.limit != "context" or not can_compact(self.conversation):
                raise
        await self._compact()
        return await self._ask_once()

    async def _ask_once(self) -> Reply:
        began = time.monotonic()
        conversation = self.conversation
        request = Request(
            self.system,
            tuple(conversation.messages),
            self.setup.toolbox.specs,
            compacted=conversation.compacted,
            **self._generation(),
        )
        first, model, turn = FirstToken(self.setup.on_delta), self.setup.model, self.spent.turns + 1
        reply = await ask(model, request, self.setup.redactor, first)
        first_s, prices = first.since(began), self.setup.prices
        event = replied(self.run_id, turn, model, reply, began, prices, first_token_s=first_s)
        self.spent.add(reply.usage, event.cost_usd)
        await self._write(event)
        return reply

    def _generation(self) -> dict[str, Any]:
        options = self.setup.generation
        length = {} if options.max_reply_tokens is None else {"max_tokens": options.max_reply_tokens}
        return {"temperature": options.temperature, "effort": options.effort, **length}

    async def _compact(self) -> None:
        """Replace the conversation by a summary."""
        now = await self.context.workspace.snapshot("before the conversation is compacted")
        changed = await self.context.workspace.changes(self.snapshot, now.id)
        files = {each.path: str(each.kind) for each in changed} | self.conversation.files
        specs = self.setup.toolbox.specs
        on_retry = self.setup.on_delta
        made = await summarise(self.conversation, self.setup.model, self.system, specs, files, on_retry)
        price = cost_usd(self.setup.model.name, made.usage, self.setup.prices)
        self.spent.add_usage(made.usage, price)
        await self._write(
            ContextCompacted(
                run_id=self.run_id,
                upto_seq=self.conversation.seq,
                summary=self.setup.redactor.redact(without_surrogates(made.text)),
                tokens_before=made.tokens_before,
                tokens_after=made.tokens_after,
                input_tokens=made.usage.input,
                cached_tokens=made.usage.cached,
                output_tokens=made.usage.output,
                cost_usd=price,
            )
        )

    async def _resume_calls(self) -> None:
        """Restore approvals. After a crash, report calls in progress as interrupted, and make the others."""
        conversation = self.conversation
        await self._restore_approvals()
        has_reply = (
            any(isinstance(message, FromModel) for message in conversation.messages) or conversation.summary
        )
        if not self.resumed or not has_reply:
            return
        for call in [call for call in conversation.waiting.values() if self._was_in_progress(call)]:
            await self._write(self.execution.returned(call, await self._result_after_restart(call)))
        if conversation.waiting:
            await self.execution.use(tuple(conversation.waiting.values()))
        match conversation.last:
            case Call() as call if self.execution.conclusion is None:
                args = self.setup.toolbox.parse(call.tool, call.arguments)
                if isinstance(args, Arguments):
                    self.execution.conclusion = await self.setup.toolbox.use(call.tool, args, self.context)
            case str() as text:
                self.execution.conclusion = ToolResult(text)
        if self.execution.conclusion is None:
            await self._write(MessageSent(author="hutch", text=RESUMED))

    async def _restore_approvals(self) -> None:
        for call, policies in self.conversation.granted:
            await self._allow_for_session(call, policies)

    async def _allow_for_session(self, call: Call, policies: tuple[str, ...]) -> None:
        if isinstance(args := self.setup.toolbox.parse(call.tool, call.arguments), Arguments):
            await self.approvals.remember(call.tool, args, policies)

    async def _read_extended_approvals(self) -> None:
        while self.setup.extended:
            if found := self.conversation.extend_approval(self.setup.extended.pop(0)):
                await self._allow_for_session(*found)

    def _was_in_progress(self, call: Call) -> bool:
        """True if a call had started. An unanswered question is asked again without harm, and a second
        delegate waits for the same helpers."""
        asks = call.tool == ASK_USER and self.conversation.answer is None
        return call.id in self.conversation.started and not (asks or call.tool == DELEGATE)

    async def _ask_user(self, text: str, call_id: str = "", choices: Sequence[str] = ()) -> str:
        """Ask a user; a question that was open when the run was stopped keeps its id."""
        assert self.setup.context.ask is not None
        pending, self.conversation.question = self.conversation.question, None
        return await self.setup.context.ask(text, call_id or (pending.call_id if pending else ""), choices)

    async def _result_after_restart(self, call: Call) -> ToolResult:
        """The result of a call that was interrupted. `finish` changes nothing, so it is executed now."""
        if call.tool == ASK_USER and self.conversation.answer is not None:
            return answer_result(self.conversation.answer)
        args = self.setup.toolbox.parse(call.tool, call.arguments) if call.tool == "finish" else None
        if not isinstance(args, Arguments):
            return args or ToolResult(INTERRUPTED, ok=False)
        self.execution.conclusion = await self.setup.toolbox.use(call.tool, args, self.context)
        return self.execution.conclusion

    async def _read_inbox(self) -> None:
        """Add the messages that users have sent meanwhile."""
        messages, self.setup.inbox[:] = list(self.setup.inbox), []
        if messages:
            self.execution.guard.reset()
            await self._write(*(self._message_event(message) for message in messages))

    def _message_event(self, message: UserMessage) -> MessageSent:
        text = self.setup.redactor.redact(message.text)
        return MessageSent(author="user", text=text, by=message.by, input=message.input)

    async def _write(self, *events: Event) -> None:
        """Append events to the log, then to the conversation."""
        last = await self.setup.recorder.append(events)
        for seq, event in enumerate(events, start=last - len(events) + 1):
            self.conversation.apply(event, seq)

    async def _end(self, outcome: Outcome, reason: str, code: str = "") -> RunEnded:
        await wait_until_done(asyncio.ensure_future(self._record_last_snapshot()))
        limit = self.spent.reached(self.setup.limits) if outcome == "limit_reached" else None
        setter = self.setup.persona.sets_limit(limit, getattr(self.setup.limits, limit)) if limit else ""
        if outcome == "done" and not self.has_model:
            outcome, reason, code = "failed", no_model_reason(), Unavailable.code
        ended = RunEnded(
            run_id=self.run_id,
            outcome=outcome,
            reason=reason,
            code=code,
            limit=limit or "",
            limit_set_by=setter,
            turns=self.spent.turns,
            input_tokens=self.spent.usage.input,
            cached_tokens=self.spent.usage.cached,
            output_tokens=self.spent.usage.output,
            cost_usd=self.spent.cost,
            duration_s=round(self.spent.duration_s, 3),
        )
        writing = asyncio.ensure_future(self._write(ended))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await wait_until_done(writing)  # else the caller that cancels would write a second end
            raise
        return ended
