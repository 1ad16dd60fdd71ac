"""Questions of a helper, which its parent's users see and answer where they are.

The question is in both logs. The first answer counts, wherever it is given.
"""

import asyncio

from hutch.agent.tool_call_permission_decision import Answer, Asker
from hutch.agent.tool_call_rules import Rule
from hutch.domain.events import ApprovalAnswered, ApprovalRequested
from hutch.sessions.live_session import LiveSession
from hutch.system.uncancellable_work import run_to_end

MAX_CALL_ID_CHARS = 200  # that a client may send


def ask_in_both(helper: LiveSession, root: LiveSession) -> Asker:
    """Ask for approval in a helper's session and in the one at the root of its tree."""

    async def ask(asked: ApprovalRequested, covers: tuple[Rule, ...]) -> Answer:
        if not root.is_running:
            return await helper.waits.approval(asked, covers)
        call_id = f"{helper.id}:{asked.call_id}"[:MAX_CALL_ID_CHARS]
        shown = asked.model_copy(update={"call_id": call_id, "helper": helper.id})
        await root.append([shown])
        answer = Answer(allowed=False, reason="the helper was stopped")
        waiting = [
            asyncio.ensure_future(each.waits.approval(question, covers))
            for each, question in ((helper, asked), (root, shown))
        ]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            answer = done.pop().result()
        finally:
            for each in waiting:
                each.cancel()
            await run_to_end(_close(root, shown, answer, waiting))
        return answer

    return ask


async def _close(
    root: LiveSession, shown: ApprovalRequested, answer: Answer, waiting: "list[asyncio.Task[Answer]]"
) -> None:
    await asyncio.wait(waiting)
    answered = ApprovalAnswered(
        call_id=shown.call_id, allowed=answer.allowed, scope=answer.scope, by=answer.by
    )
    await root.append([answered])
