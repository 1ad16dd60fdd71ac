"""How long the files of a session are kept: what nobody touches goes, and what happened stays in the log.

A request of `POST /api/code` has its pull request, and leaves nothing worth keeping for
long; unless it could not be delivered, which can be tried again. Whatever is removed in
the middle of a crash is removed by the next sweep.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import structlog

from hutch.domain.errors import Conflict, EventsMissing, HutchError, NotFound
from hutch.domain.events import DeliveryEnded, SessionEnded
from hutch.domain.ids import SessionId
from hutch.domain.session import Session
from hutch.store.expiry import Expiry
from hutch.store.rows import Rows
from hutch.store.seam import EventLog
from hutch.system.clock import STEADY

HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS
PAGE = 100
MOST = 5000  # sessions in one sweep
RECENT = 200  # entries in which the end of a delivery is looked for
logger = structlog.get_logger()

RemoveWorkspace = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Keep:
    """For how long; 0 is for good."""

    days: int = 30  # the files of any session
    code_hours: int = 24  # those of a request that was answered


@dataclass(frozen=True, slots=True)
class Gone:
    """A session whose files were removed, and why."""

    session_id: str
    workspace_id: str
    reason: str


async def sweep(
    rows: Rows,
    log: EventLog,
    remove: RemoveWorkspace,
    keep: Keep,
    *,
    at_ms: int | None = None,
    dry_run: bool = False,
) -> list[Gone]:
    """Remove the workspaces of sessions that are past their time. `at_ms` is when that is asked: now."""
    at_ms = STEADY.now_ms() if at_ms is None else at_ms
    gone: list[Gone] = []
    terms = [(keep.code_hours * HOUR_MS, True, _count(keep.code_hours, "hour"))]
    terms += [(keep.days * DAY_MS, False, _count(keep.days, "day"))]
    for kept_ms, once, words in terms:
        reason = f"Its workspace was removed after {words}."
        after = ""
        while kept_ms and len(gone) < MOST:
            found = await Expiry(rows).untouched(at_ms - kept_ms, once=once, limit=PAGE, after=after)
            if not found:
                break
            after = found[-1].id
            for session in found:
                if any(each.session_id == session.id for each in gone):
                    continue
                if once and await _waits_for_delivery(log, session):
                    continue
                if dry_run or await _remove(rows, log, remove, session, reason):
                    gone.append(Gone(session.id, session.workspace_id, reason))
    return gone


async def _waits_for_delivery(log: EventLog, session: Session) -> bool:
    """Whether what was done is still to be handed over: that failed, and can be done again."""
    head = await log.head(session.id)
    try:
        recent = await log.read(session.id, after=max(0, head.seq - RECENT))
    except EventsMissing:
        return True  # nobody knows, so nothing is removed
    told = [each.event for each in recent if isinstance(each.event, DeliveryEnded)]
    return bool(told) and told[-1].outcome == "failed" and not head.ended


async def _remove(rows: Rows, log: EventLog, remove: RemoveWorkspace, session: Session, reason: str) -> bool:
    """End it, then take its files: nobody can wake it in between."""
    try:
        if not await Expiry(rows).let_go(session, reason):
            return False
        id = SessionId(session.id)
        if not (await log.head(id)).ended:
            outcome = "done" if session.delivery.once else "abandoned"
            await log.append(id, [SessionEnded(outcome=outcome, reason=reason)])
        with suppress(NotFound):  # somebody else has tidied up
            await remove(session.workspace_id)
        await Expiry(rows).forget_workspace(id)
    except Conflict:  # its files are looked at this moment: the next sweep
        return False
    except HutchError as error:
        logger.warning("workspace.not_removed", session_id=session.id, problem=str(error))
        return False
    logger.info("workspace.removed", session_id=session.id, workspace=session.workspace_id)
    return True


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}{'' if number == 1 else 's'}"
