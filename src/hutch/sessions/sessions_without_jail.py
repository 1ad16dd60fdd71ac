"""Sessions with a log and no jail here: in-place sessions of other processes, and rooms of interviews."""

from hutch.domain.errors import Conflict
from hutch.domain.session import Session


def refuse_without_jail(session: Session) -> None:
    """Refuse work in a session that has no jail of this host."""
    if session.delivery.in_place and session.state != "ended":
        raise Conflict(
            f"The session {session.id} is a `hutch shell` in {session.repository}. "
            "Here only its log and the content of its changes can be read."
        )
    refuse_room(session)


def refuse_room(session: Session) -> None:
    """Refuse work in the room of an interview."""
    if session.delivery.interview:
        raise Conflict(
            f"The session {session.id} is the room of an interview, which has no files. "
            "Work in the sessions of its questions."
        )
