"""Tidying up after sessions: once when a server starts, and every hour."""

import asyncio

import structlog

from hutch.app import workspaces
from hutch.domain.errors import HutchError, NotFound
from hutch.domain.ids import SessionId
from hutch.flows import keeping
from hutch.flows.keeping import Gone, Keep
from hutch.jail.launch.orphans import end_orphans
from hutch.settings import Loaded
from hutch.store.log import SqlLog, open_log
from hutch.store.sessions import Sessions

EVERY_S = 3600.0
MAX_NAMED = 10
MOST_REMOVED = 1000  # workspaces in one sweep
logger = structlog.get_logger()


async def keep_tidy(loaded: Loaded, log: SqlLog) -> None:
    """Until it is cancelled."""
    while True:
        for work in (_end_orphans, lambda: tidy(loaded, log)):
            try:
                await work()
            except (HutchError, OSError) as error:
                logger.warning("tidying.failed", problem=str(error))
            except Exception:  # a bug in here must not be the end of all tidying
                logger.exception("tidying.failed")
        await asyncio.sleep(EVERY_S)


async def _end_orphans() -> None:
    if ended := await asyncio.to_thread(end_orphans):
        logger.info("tidying.ended_orphans", count=len(ended))


async def prune_sessions(loaded: Loaded, *, dry_run: bool = False) -> list[Gone]:
    """The same once, for who asks for it; a server may run meanwhile."""
    paths = loaded.paths
    async with open_log(paths.database, paths.blobs, paths.signing_key) as log:
        return await tidy(loaded, log, dry_run=dry_run)


async def tidy(loaded: Loaded, log: SqlLog, *, at_ms: int | None = None, dry_run: bool = False) -> list[Gone]:
    """Remove what is past its time: workspaces, what dead processes left, and copies of repositories."""
    settings = loaded.settings.sessions
    keep = Keep(days=settings.keep_days, code_hours=settings.keep_code_hours)

    async def remove(id: str) -> None:
        await workspaces.remove(loaded, id)

    gone = await keeping.sweep(log, log, remove, keep, at_ms=at_ms, dry_run=dry_run)
    gone += await _of_no_session(loaded, log, dry_run)
    if not dry_run:
        await workspaces.collect_bases(loaded)
    return gone


async def _of_no_session(loaded: Loaded, log: SqlLog, dry_run: bool) -> list[Gone]:
    """Workspaces that a server made for a session which is over or removed, and was killed before it noted
    or removed them. A session without a log was never here: the database is an older one, put back from a
    backup, and somebody may want the work."""
    made = {workspaces.session_of(each.id): each.id for each in await workspaces.list_workspaces(loaded)}
    made.pop("", None)
    gone: list[Gone] = []
    unknown: list[str] = []
    ids = [SessionId(id) for id in made]
    for start in range(0, len(ids), 100):
        part = ids[start : start + 100]
        known = await Sessions(log).many(part)
        for id in part:
            session = known.get(id)
            if session is None and not await _has_log(log, id):
                unknown.append(made[id])
            elif session is None or (session.state == "ended" and session.workspace_id != made[id]):
                gone.append(Gone(id, made[id], "No session needs its workspace any more."))
    if unknown:
        logger.warning("workspaces.of_unknown_sessions", count=len(unknown), ids=unknown[:MAX_NAMED])
    gone = gone[:MOST_REMOVED]
    for each in [] if dry_run else gone:
        await _remove(loaded, each)
    return gone


async def _has_log(log: SqlLog, session_id: SessionId) -> bool:
    try:
        await log.head(session_id)
    except NotFound:
        return False
    return True


async def _remove(loaded: Loaded, gone: Gone) -> None:
    try:
        await workspaces.remove(loaded, gone.workspace_id)
    except HutchError as error:  # it is open
        logger.info("workspace.not_removed", workspace=gone.workspace_id, problem=str(error))
