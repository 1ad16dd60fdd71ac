"""Sessions with a log and no jail here: in-place sessions of other processes, and rooms of interviews."""

from hutch.domain.errors import Conflict
from hutch.domain.session import Session


def refuse_without_jail(session: Session, *, opens_in_place: bool = False) -> None:
    """Refuse work in a session that has no jail of this host. One that opens directories in place has the
    jails of such sessions."""
    if session.delivery.in_place and session.state != "ended" and not opens_in_place:
        raise Conflict(
            f"The session {session.id} works in {session.repository} itself, in another program. "
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


def works_in_place(session: Session) -> Conflict:
    """The error for a request that only the program with this session's jail can serve."""
    return Conflict(
        f"The session {session.id} works in {session.repository} itself. Only the program that opened it "
        "takes its input."
    )
