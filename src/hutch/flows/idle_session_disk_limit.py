"""Limits the disk space that the files of idle sessions take together.

Sessions that have ended go first, then those whose runs ended before they changed anything, such as a
run with a rejected key. Of each kind, the ones unused for longest go first. Work that was not delivered
is never removed because of its size, also after its session has ended: there may be no other copy.
"""

from dataclasses import field

from hutch.domain.errors import EventsMissing, NotFound
from hutch.domain.events import (
    CommandStarted,
    DeliveryEnded,
    Event,
    FileChanged,
    FilesChanged,
    RunEnded,
    RunStarted,
    SessionParked,
    SessionPrepared,
    SnapshotTaken,
    TerminalOpened,
    ToolCalled,
)
from hutch.domain.ids import SessionId
from hutch.domain.session import Session
from hutch.flows.run_facts_from_log import BEFORE
from hutch.store.event_log_interface import EventLog
from hutch.store.idle_session_expiry import SessionExpiry
from hutch.store.table_access_interface import Rows
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.workspaces import Workspaces

RESUMABLE_MS = 10 * 60 * 1000  # the newest session of a user, whose run has just failed, can be resumed
MAY_CHANGE_FILES = (CommandStarted, FileChanged, FilesChanged, TerminalOpened, ToolCalled)
PAGE = 100


@dataclass(frozen=True, slots=True)
class _Stored:
    session: Session
    bytes: int


@dataclass(frozen=True, slots=True)
class Excess:
    """The sessions whose files must go, and the size of the rest."""

    sessions: tuple[Session, ...] = ()
    remaining: int = 0  # the number of idle sessions that keep their files
    remaining_bytes: int = 0


async def find_excess(
    rows: Rows, log: EventLog, workspaces: Workspaces, max_bytes: int, *, at_ms: int
) -> Excess:
    """The idle sessions whose files must go so that the rest takes at most `max_bytes`; 0: no limit."""
    if not max_bytes:
        return Excess()
    stored = [
        _Stored(session, size)
        for session in await _idle(rows, at_ms)
        if (size := await _disk_bytes(workspaces, session)) is not None
    ]
    newest = {
        each.session.owner: each.session for each in sorted(stored, key=lambda one: one.session.updated_ms)
    }
    size = sum(each.bytes for each in stored)
    found: list[Session] = []
    for each in sorted(stored, key=lambda one: (one.session.state != "ended", one.session.updated_ms)):
        if size <= max_bytes:
            break
        is_newest = newest[each.session.owner].id == each.session.id
        if await _is_removable(log, each.session, kept_ms=RESUMABLE_MS if is_newest else 0, at_ms=at_ms):
            found.append(each.session)
            size -= each.bytes
    return Excess(tuple(found), len(stored) - len(found), size)


async def _idle(rows: Rows, at_ms: int) -> list[Session]:
    found: list[Session] = []
    while page := await SessionExpiry(rows).list_idle(
        at_ms + 1, once=False, limit=PAGE, after=found[-1].id if found else ""
    ):
        found += page
    return found


async def _disk_bytes(workspaces: Workspaces, session: Session) -> int | None:
    """The size of a session's files; None if they do not exist."""
    try:
        return await workspaces.disk_bytes(session.workspace_id, session.updated_ms)
    except (NotFound, OSError):  # removed by hand, or just now
        return None


async def _is_removable(log: EventLog, session: Session, *, kept_ms: int, at_ms: int) -> bool:
    """True if a session had a run or has ended, and holds no work that was not delivered."""
    is_ended = session.state == "ended"
    if not is_ended and at_ms - session.updated_ms < kept_ms:
        return False
    is_fork = bool(session.forked_from)
    work = _Work(is_fork, may_have_changed=is_fork)
    after = 0
    try:
        while page := await log.read(SessionId(session.id), after=after):
            for entry in page:
                if not isinstance(entry.event, Event):  # it was erased, so nothing is known
                    return False
                work.apply(entry.event)
            after = page[-1].seq
    except EventsMissing:
        return False
    if is_ended:
        return not work.may_have_changed or work.is_delivered
    return work.has_run and not work.may_have_changed


@dataclass(slots=True)
class _Work:
    """The work in a session, as its log tells it: compares the last snapshot with the delivered one."""

    is_fork: bool  # it began with work of another session
    may_have_changed: bool
    has_run: bool = False
    _has_commit: bool = False
    _first: int = 0
    _newest: int = 0
    _final: int = 0  # the snapshot of the closed workspace; 0: unknown
    _delivered: int = 0
    _run_id: str = ""
    _last_of_run: dict[str, int] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        if isinstance(event, MAY_CHANGE_FILES):
            self.may_have_changed, self._final = True, 0
        match event:
            case SessionPrepared():
                self._has_commit = bool(event.commit)
            case SnapshotTaken():
                self._first, self._newest = self._first or event.snapshot, event.snapshot
                if self._run_id and event.reason != BEFORE:
                    self._last_of_run[self._run_id] = event.snapshot
            case RunStarted():
                self._run_id = event.run_id
                self._last_of_run[event.run_id] = self._newest
            case RunEnded():
                self.has_run = True
            case DeliveryEnded(outcome="proposed"):
                self._delivered = self._last_of_run.get(event.run_id, 0)
            case DeliveryEnded(outcome="nothing") if self._has_commit and not self.is_fork:
                self._delivered = self._last_of_run.get(event.run_id, 0)
            case SessionParked():
                self._final = event.snapshot

    @property
    def is_delivered(self) -> bool:
        """True if the files are as they came, or as they were delivered."""
        safe = {self._delivered} if self.is_fork else {self._delivered, self._first}
        return self._final in safe - {0}
