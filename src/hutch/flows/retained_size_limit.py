"""Limits the disk space that the files of idle sessions take together.

Sessions that have ended go first, then those whose runs ended before they changed anything, such as a
run with a rejected key. Of each kind, the ones unused for longest go first. Files that a user or an
agent may have changed are never removed because of their size: they may be all there is of that work.
"""

from dataclasses import dataclass

from hutch.domain.errors import EventsMissing, NotFound
from hutch.domain.events import (
    CommandStarted,
    Event,
    FileChanged,
    FilesChanged,
    RunEnded,
    TerminalOpened,
    ToolCalled,
)
from hutch.domain.ids import SessionId
from hutch.domain.session import Session
from hutch.store.interface import EventLog
from hutch.store.session_expiry import SessionExpiry
from hutch.store.table_access import Rows
from hutch.workspace.workspaces import Workspaces

KEPT_MS = 10 * 60 * 1000  # a run that has just failed can be resumed
MAY_CHANGE_FILES = (CommandStarted, FileChanged, FilesChanged, TerminalOpened, ToolCalled)
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
    found = []
    for each in sorted(stored, key=lambda one: (one.session.state != "ended", one.session.updated_ms)):
        if excess <= 0:
            break
        is_recent = at_ms - each.session.updated_ms < KEPT_MS
        if each.session.state == "ended" or (not is_recent and await _changed_nothing(log, each.session)):
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


async def _changed_nothing(log: EventLog, session: Session) -> bool:
    """Whether a session had a run, and neither it nor a user did anything that could change a file."""
    after, has_run = 0, False
    try:
        while page := await log.read(SessionId(session.id), after=after):
            events = [entry.event for entry in page]
            if any(isinstance(event, MAY_CHANGE_FILES) or not isinstance(event, Event) for event in events):
                return False
            has_run = has_run or any(isinstance(event, RunEnded) for event in events)
            after = page[-1].seq
    except EventsMissing:
        return False
    return has_run
