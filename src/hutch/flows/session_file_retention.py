"""Removes unused files of sessions after a retention time or beyond a size; their logs remain.

The files of a request of `POST /api/code` are removed sooner, since it has its pull request;
unless the delivery failed, because it can be retried. A removal that a crash interrupts is
finished by the next sweep.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import structlog

from hutch.domain.errors import Conflict, EventsMissing, HutchError, NotFound
from hutch.domain.events import DeliveryEnded, SessionEnded
from hutch.domain.ids import SessionId
from hutch.domain.session import Session
from hutch.flows.idle_session_disk_limit import Excess, find_excess
from hutch.flows.repository_dependencies import Environments
from hutch.jail.launch.unfinished_starts import end_orphans
from hutch.store.event_log import SqlLog
from hutch.store.event_log_interface import EventLog
from hutch.store.idle_session_expiry import SessionExpiry
from hutch.store.sessions import Sessions
from hutch.store.table_access_interface import Rows
from hutch.system.clock_without_jumps import STEADY
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.lifecycle.pending_starter_files import StagedFiles
from hutch.workspace.workspaces import Workspaces, session_of_workspace

HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS
INTERVAL_S = 3600.0
PAGE = 100
MAX_SESSIONS = 5000  # in one sweep
MAX_LEFTOVERS = 1000  # workspaces without a session, in one sweep
MAX_NAMED = 10
STAGED_S = 3600.0  # after which starter files without a session are removed
RECENT = 200  # entries that are searched for the end of a delivery
TOO_MUCH = "Its workspace was removed: all together took more than sessions.file_retention_bytes."
logger = structlog.get_logger()

RemoveWorkspace = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Keep:
    """The limits of retention; 0: none."""

    days: int = 30  # the files of any session
    code_hours: int = 24  # those of a request that was answered
    bytes: int = 0  # the files of all idle sessions


@dataclass(frozen=True, slots=True)
class Gone:
    """A session whose files were removed, and why."""

    session_id: str
    workspace_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Retention:
    """Removes expired files: when a server starts, every hour, and after a run of the command line."""

    log: SqlLog
    workspaces: Workspaces
    keep: Keep
    environments: Environments | None = None  # installed dependencies, with limits of their own

    async def run(self) -> None:
        """Sweep repeatedly, until cancelled."""
        while True:
            for work in (_end_orphans, self.sweep):
                try:
                    await work()
                except (HutchError, OSError) as error:
                    logger.warning("tidying.failed", problem=str(error))
                except Exception:  # a bug must not end all further sweeps
                    logger.exception("tidying.failed")
            await asyncio.sleep(INTERVAL_S)

    async def sweep(self, *, at_ms: int | None = None, dry_run: bool = False) -> list[Gone]:
        """Remove expired workspaces, leftovers of killed processes, and unused copies of repositories."""
        gone = await self.remove_old(at_ms=at_ms, dry_run=dry_run)
        gone += await self._remove_leftovers(dry_run)
        if not dry_run:
            await self._remove_staged()
            await self.workspaces.collect_bases()
            if self.environments is not None:
                await self.environments.collect()
        return gone

    @asynccontextmanager
    async def removing_old_afterwards(self) -> AsyncIterator[None]:
        """Remove old files after a command's work, also if it failed: without a server nothing else does."""
        try:
            yield
        except HutchError:
            await self._try_remove_old()
            raise
        await self._try_remove_old()

    async def _try_remove_old(self) -> None:
        try:
            await self.remove_old()
        except (HutchError, OSError) as error:  # the work itself was a success
            logger.warning("tidying.failed", problem=str(error))

    async def remove_old(self, *, at_ms: int | None = None, dry_run: bool = False) -> list[Gone]:
        """Remove the workspaces of sessions that are too old, then those beyond the maximum size."""
        at_ms = STEADY.now_ms() if at_ms is None else at_ms
        remove = self.workspaces.remove
        gone = await remove_expired(self.log, self.log, remove, self.keep, at_ms=at_ms, dry_run=dry_run)
        excess = await self.find_excess(at_ms=at_ms)
        known = {each.session_id for each in gone}
        for session in excess.sessions:
            if session.id in known:
                continue
            if dry_run or await remove_files(self.log, self.log, remove, session, TOO_MUCH):
                gone.append(Gone(session.id, session.workspace_id, TOO_MUCH))
        if excess.remaining_bytes > self.keep.bytes:
            logger.info("workspaces.over_limit", bytes=excess.remaining_bytes, max_bytes=self.keep.bytes)
        return gone

    async def find_excess(self, *, at_ms: int | None = None) -> Excess:
        """The idle sessions whose files are beyond the maximum size, and the size of the others."""
        at_ms = STEADY.now_ms() if at_ms is None else at_ms
        return await find_excess(self.log, self.log, self.workspaces, self.keep.bytes, at_ms=at_ms)

    async def _remove_leftovers(self, dry_run: bool) -> list[Gone]:
        """Remove the workspaces of ended or removed sessions that a killed server has left.

        A workspace whose session has no log stays: the database may be an older one, restored from a
        backup, and a user may want the work.
        """
        made = {session_of_workspace(each.id): each.id for each in await self.workspaces.records()}
        made.pop("", None)
        gone: list[Gone] = []
        unknown: list[str] = []
        ids = [SessionId(id) for id in made]
        for start in range(0, len(ids), PAGE):
            part = ids[start : start + PAGE]
            known = await Sessions(self.log).get_many(part)
            for id in part:
                session = known.get(id)
                if session is None and not await _has_log(self.log, id):
                    unknown.append(made[id])
                elif session is None or (session.state == "ended" and session.workspace_id != made[id]):
                    gone.append(Gone(id, made[id], "No session needs its workspace any more."))
        if unknown:
            logger.warning("workspaces.of_unknown_sessions", count=len(unknown), ids=unknown[:MAX_NAMED])
        gone = gone[:MAX_LEFTOVERS]
        for each in [] if dry_run else gone:
            try:
                await self.workspaces.remove(each.workspace_id)
            except HutchError as error:  # it is open
                logger.info("workspace.not_removed", workspace=each.workspace_id, problem=str(error))
        return gone

    async def _remove_staged(self) -> None:
        """Remove starter files that no session waits for any more."""
        staged = StagedFiles(self.workspaces.home.staged_files)
        ids = await asyncio.to_thread(staged.stored_before, STAGED_S)
        for start in range(0, len(ids), PAGE):
            known = await Sessions(self.log).get_many(ids[start : start + PAGE])
            for id in ids[start : start + PAGE]:
                session = known.get(id)
                if session is None or session.state == "ended" or session.workspace_id:
                    await asyncio.to_thread(staged.remove, id)


async def _end_orphans() -> None:
    if ended := await asyncio.to_thread(end_orphans):
        logger.info("tidying.ended_orphans", count=len(ended))


async def _has_log(log: EventLog, session_id: SessionId) -> bool:
    try:
        await log.head(session_id)
    except NotFound:
        return False
    return True


async def remove_expired(
    rows: Rows,
    log: EventLog,
    remove: RemoveWorkspace,
    keep: Keep,
    *,
    at_ms: int | None = None,
    dry_run: bool = False,
) -> list[Gone]:
    """Remove the workspaces of expired sessions. `at_ms` replaces the current time."""
    at_ms = STEADY.now_ms() if at_ms is None else at_ms
    gone: list[Gone] = []
    terms = [(keep.code_hours * HOUR_MS, True, _count(keep.code_hours, "hour"))]
    terms += [(keep.days * DAY_MS, False, _count(keep.days, "day"))]
    for kept_ms, once, words in terms:
        reason = f"Its workspace was removed after {words}."
        after = ""
        while kept_ms and len(gone) < MAX_SESSIONS:
            found = await SessionExpiry(rows).list_idle(at_ms - kept_ms, once=once, limit=PAGE, after=after)
            if not found:
                break
            after = found[-1].id
            for session in found:
                if any(each.session_id == session.id for each in gone):
                    continue
                if once and await _waits_for_delivery(log, session):
                    continue
                if dry_run or await remove_files(rows, log, remove, session, reason):
                    gone.append(Gone(session.id, session.workspace_id, reason))
    return gone


async def _waits_for_delivery(log: EventLog, session: Session) -> bool:
    """True if the last delivery failed, so that it can be retried."""
    head = await log.head(session.id)
    try:
        recent = await log.read(session.id, after=max(0, head.seq - RECENT))
    except EventsMissing:
        return True  # it is unknown, so nothing is removed
    deliveries = [each.event for each in recent if isinstance(each.event, DeliveryEnded)]
    return bool(deliveries) and deliveries[-1].outcome == "failed" and not head.ended


async def remove_files(
    rows: Rows, log: EventLog, remove: RemoveWorkspace, session: Session, reason: str
) -> bool:
    """End a session, then remove its files: an ended session cannot be woken in between."""
    try:
        if not await SessionExpiry(rows).end_idle(session, reason):
            return False
        id = SessionId(session.id)
        if not (await log.head(id)).ended:
            outcome = "done" if session.delivery.once else "abandoned"
            await log.append(id, [SessionEnded(outcome=outcome, reason=reason)])
        with suppress(NotFound):  # it was removed already
            await remove(session.workspace_id)
        await SessionExpiry(rows).clear_workspace(id)
    except Conflict:  # its files are in use: the next sweep removes it
        return False
    except HutchError as error:
        logger.warning("workspace.not_removed", session_id=session.id, problem=str(error))
        return False
    logger.info("workspace.removed", session_id=session.id, workspace=session.workspace_id)
    return True


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}{'' if number == 1 else 's'}"
