"""What an agent waits for: somebody's approval, or an answer."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from hutch.agent.approval import Answer as Approval
from hutch.agent.policy import Rule
from hutch.domain.events import ApprovalAsked, Event, QuestionAnswered, QuestionAsked
from hutch.domain.ids import new_input_id
from hutch.domain.inputs import Answer, Approve, Deny
from hutch.domain.session import SessionInput

Reply = Approve | Deny | Answer
Append = Callable[[Sequence[Event]], Awaitable[object]]


@dataclass(slots=True)
class Waits:
    """Who waits for what in one session. An answer may come before its question, after a crash."""

    append: Append
    changed: Callable[[], Awaitable[None]]  # whether anybody waits is another now
    taken: Callable[[SessionInput], Awaitable[None]]
    _waiting: dict[str, "asyncio.Future[tuple[SessionInput, Reply]]"] = field(default_factory=dict)
    _early: dict[str, tuple[SessionInput, Reply]] = field(default_factory=dict)
    _asked: set[str] = field(default_factory=set)  # call ids asked about in this run
    _used: dict[str, SessionInput] = field(default_factory=dict)  # approvals on their way into the log

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def offer(self, given: SessionInput, reply: Reply) -> bool:
        """Give an answer to who waits for it; False when nobody does yet."""
        waiting = self._waiting.get(reply.call_id)
        if waiting is None or waiting.done():
            self._early[reply.call_id] = (given, reply)
            return False
        waiting.set_result((given, reply))
        return True

    async def approval(self, asked: ApprovalAsked, covers: tuple[Rule, ...]) -> Approval:
        """Wait until somebody says whether a call may be made. What an answer covers is in the question."""
        given, reply = await self._wait(asked.call_id)
        self._used[asked.call_id] = given
        match reply:
            case Approve():
                return Approval(allowed=True, scope=reply.scope, by=given.by)
            case Deny():
                return Approval(allowed=False, by=given.by, reason=reply.reason)
            case Answer():
                return Approval(allowed=False, by=given.by, reason=reply.text)

    async def settled(self, call_id: str) -> None:
        """An approval is in the log: its input is done with."""
        if given := self._used.pop(call_id, None):
            await self.taken(given)

    async def question(self, text: str, call_id: str = "") -> str:
        """Wait for somebody's answer to a question. One that was open before a restart keeps its id, so an
        answer that was given meanwhile is an answer to it."""
        call_id = call_id or f"ask_{new_input_id().partition('_')[2]}"
        await self.append([QuestionAsked(call_id=call_id, text=text)])
        given, reply = await self._wait(call_id)
        answer = reply.text if isinstance(reply, Answer) else "(no answer)"
        answered = QuestionAnswered(call_id=call_id, text=answer, by=given.by, audience=given.audience)
        await self.append([answered])
        await self.taken(given)
        return answer

    async def forget(self) -> None:
        """The run is over: answers that nobody waited for are done with."""
        early, self._early = list(self._early.values()), {}
        self._asked.clear()
        for given, _ in early:
            await self.taken(given)

    async def _wait(self, call_id: str) -> tuple[SessionInput, Reply]:
        # Models choose the ids of their calls, and may use one twice: a second answer to the first
        # question must not answer the second question, which nobody has seen yet.
        is_first, early = call_id not in self._asked, self._early.get(call_id)
        self._asked.add(call_id)
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
