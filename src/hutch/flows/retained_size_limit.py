"""Limits the disk space that the files of idle sessions take together.

Sessions that have ended go first, then those that can be resumed but changed nothing, then those
with work that was not delivered. Of each kind, the ones unused for longest go first. The last two
kinds are kept for a while, so that a run that has just failed can be resumed.
"""

from dataclasses import dataclass

from hutch.domain.errors import EventsMissing, NotFound
from hutch.domain.events import SnapshotTaken
from hutch.domain.ids import SessionId
from hutch.domain.session import Session
from hutch.store.interface import EventLog
from hutch.store.session_expiry import SessionExpiry
from hutch.store.table_access import Rows
from hutch.workspace.workspaces import Workspaces

KEPT_MS = (0, 10 * 60 * 1000, 24 * 3600 * 1000)  # since the last use, for each rank
PAGE = 100


@dataclass(frozen=True, slots=True)
class _Stored:
    session: Session
    bytes: int


async def excess_sessions(
    rows: Rows, log: EventLog, workspaces: Workspaces, max_bytes: int, *, at_ms: int
) -> list[Session]:
    """The idle sessions whose files must go so that the rest takes at most `max_bytes`; 0: no limit."""
    if not max_bytes:
        return []
    stored = [
        _Stored(session, await _disk_bytes(workspaces, session)) for session in await _idle(rows, at_ms)
    ]
    excess = sum(each.bytes for each in stored) - max_bytes
    if excess <= 0:
        return []
    ranked = [(await _rank(log, each.session), each) for each in stored]
    found = []
    for rank, each in sorted(ranked, key=lambda pair: (pair[0], pair[1].session.updated_ms)):
        if excess <= 0:
            break
        if at_ms - each.session.updated_ms >= KEPT_MS[rank]:
            found.append(each.session)
            excess -= each.bytes
    return found


async def _idle(rows: Rows, at_ms: int) -> list[Session]:
    found: list[Session] = []
    while page := await SessionExpiry(rows).list_idle(
        at_ms + 1, once=False, limit=PAGE, after=found[-1].id if found else ""
    ):
        found += page
    return found


async def _disk_bytes(workspaces: Workspaces, session: Session) -> int:
    try:
        return await workspaces.disk_bytes(session.workspace_id, session.updated_ms)
    except (NotFound, OSError):  # it is being removed
        return 0


async def _rank(log: EventLog, session: Session) -> int:
    """0 if a session has ended, 1 if it changed nothing, 2 if its work may be all there is of it."""
    if session.state == "ended":
        return 0
    after, snapshots = 0, 0
    try:
        while page := await log.read(SessionId(session.id), after=after):
            snapshots += sum(isinstance(entry.event, SnapshotTaken) for entry in page)
            if snapshots > 1:  # the first one is of the files before the work
                return 2
            after = page[-1].seq
    except EventsMissing:
        return 2
    return 1
