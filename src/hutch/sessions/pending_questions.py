"""The approvals and answers that an agent waits for."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field

from hutch.agent.tool_call_permission_decision import Answer as Approval
from hutch.agent.tool_call_rules import Rule
from hutch.domain.events import ApprovalRequested, Event, QuestionAnswered, QuestionAsked
from hutch.domain.ids import new_input_id
from hutch.domain.inputs import Answer, Approve, Deny
from hutch.domain.session import SessionInput
from hutch.system.lazy_dataclass import dataclass

Reply = Approve | Deny | Answer
Append = Callable[[Sequence[Event]], Awaitable[object]]


@dataclass(slots=True)
class Waits:
    """The open questions of one session. After a crash, an answer may arrive before its question."""

    append: Append
    changed: Callable[[], Awaitable[None]]  # called when the session starts or stops waiting
    taken: Callable[[SessionInput], Awaitable[None]]
    _waiting: dict[str, "asyncio.Future[tuple[SessionInput, Reply]]"] = field(default_factory=dict)
    _early: dict[str, tuple[SessionInput, Reply]] = field(default_factory=dict)
    _seen_call_ids: set[str] = field(default_factory=set)  # call ids asked about in this run
    _used: dict[str, SessionInput] = field(default_factory=dict)  # approvals on their way into the log

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def offer(self, submitted: SessionInput, reply: Reply) -> bool:
        """Pass an answer to its question; False when the question is not open yet."""
        waiting = self._waiting.get(reply.call_id)
        if waiting is None or waiting.done():
            self._early[reply.call_id] = (submitted, reply)
            return False
        waiting.set_result((submitted, reply))
        return True

    async def approval(self, question: ApprovalRequested, covers: tuple[Rule, ...]) -> Approval:
        """Wait for a user to allow or deny a call. The question says which calls an answer covers."""
        submitted, reply = await self._wait(question.call_id)
        self._used[question.call_id] = submitted
        match reply:
            case Approve():
                return Approval(allowed=True, scope=reply.scope, by=submitted.by)
            case Deny():
                return Approval(allowed=False, by=submitted.by, reason=reply.reason)
            case Answer():
                return Approval(allowed=False, by=submitted.by, reason=reply.text)

    async def settled(self, call_id: str) -> None:
        """Mark the input of an approval as taken, once the approval is in the log."""
        if submitted := self._used.pop(call_id, None):
            await self.taken(submitted)

    async def question(self, text: str, call_id: str = "", choices: Sequence[str] = ()) -> str:
        """Wait for a user's answer. A question that was open before a restart keeps its id, so answers that
        arrived in the meantime belong to it."""
        call_id = call_id or f"ask_{new_input_id().partition('_')[2]}"
        await self.append([QuestionAsked(call_id=call_id, text=text, choices=tuple(choices))])
        submitted, reply = await self._wait(call_id)
        answer = reply.text if isinstance(reply, Answer) else "(no answer)"
        answered = QuestionAnswered(
            call_id=call_id, text=answer, by=submitted.by, audience=submitted.audience
        )
        await self.append([answered])
        await self.taken(submitted)
        return answer

    async def forget(self) -> None:
        """After a run, mark unused answers as taken."""
        early, self._early = list(self._early.values()), {}
        self._seen_call_ids.clear()
        for submitted, _ in early:
            await self.taken(submitted)

    async def _wait(self, call_id: str) -> tuple[SessionInput, Reply]:
        # Models choose the ids of their calls, and may use one twice: a second answer to the first
        # question must not answer the second question, which no user has seen yet.
        is_first, early = call_id not in self._seen_call_ids, self._early.get(call_id)
        self._seen_call_ids.add(call_id)
        if is_first and early is not None:
            return self._early.pop(call_id)
        waiting: asyncio.Future[tuple[SessionInput, Reply]] = asyncio.get_running_loop().create_future()
        self._waiting[call_id] = waiting
        try:
            await self.changed()
            return await waiting
        finally:
            del self._waiting[call_id]
            await asyncio.shield(asyncio.ensure_future(self.changed()))
