"""Allows for the rest of a session what a user has allowed once."""

from collections.abc import Iterable

from hutch.domain.events import AnyEvent, ApprovalAnswered, ApprovalExtended, ApprovalRequested
from hutch.domain.session import SessionInput
from hutch.sessions.live_session import LiveSession

NOT_ALLOWED_ONCE = "No call {0} was allowed once in this session, or its approval can be valid only once."


def find_allowed_once(events: Iterable[AnyEvent], call_id: str) -> ApprovalRequested | None:
    """The request for approval of a call that was allowed once. None if a longer approval is not possible."""
    asked: ApprovalRequested | None = None
    found: ApprovalRequested | None = None
    for event in events:
        match event:
            case ApprovalRequested() if event.call_id == call_id:
                asked, found = event, None
            case ApprovalAnswered() if event.call_id == call_id:
                found = asked if event.allowed and event.scope == "once" else None
            case ApprovalExtended() if event.call_id == call_id:
                found = None
    return found if found is not None and found.covers and found.audience is None else None


async def extend_approval(live: LiveSession, submitted: SessionInput, call_id: str) -> str:
    """Record that a call is allowed for the session, also for the current run. Returns why it is refused."""
    if find_allowed_once((entry.event for entry in await live.entries()), call_id) is None:
        return NOT_ALLOWED_ONCE.format(call_id)
    await live.append([ApprovalExtended(call_id=call_id, by=submitted.by, input=submitted.seq)])
    live.extended.append(call_id)
    return ""
