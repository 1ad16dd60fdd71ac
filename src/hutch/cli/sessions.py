"""Which session a person means."""

from hutch.app import EventLog
from hutch.domain.errors import NotFound
from hutch.domain.ids import SessionId, parse_session_id


async def find_session(log: EventLog, text: str) -> SessionId:
    """The session with this id; `last` is the one that was opened last."""
    if text != "last":
        return parse_session_id(text)
    heads = await log.heads(limit=1)
    if not heads:
        raise NotFound("There are no sessions yet.")
    return heads[0].session_id
