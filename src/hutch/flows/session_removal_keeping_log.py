"""Removes a session: ends it, deletes its files, and takes it off all lists."""

import asyncio
from contextlib import suppress

import structlog

from hutch.domain.errors import Conflict, HutchError, NotFound
from hutch.domain.inputs import End
from hutch.domain.session import Session
from hutch.domain.user import Caller
from hutch.flows.flow_services import Services
from hutch.flows.sessions import allowed, give
from hutch.store.session_row_removal import PendingRemoval, PendingRemovals, remove_session
from hutch.store.sessions import Sessions

TIMEOUT_S = 20.0  # for the work in progress in it
POLL_INTERVAL_S = 0.05
logger = structlog.get_logger()


async def remove(services: Services, who: Caller, session_id: str) -> None:
    """End a session and delete its workspace. Its log remains.

    The removal is noted first, so the next start finishes one that a crash interrupted. A removal that
    fails is not noted any more: the caller gets an error and can retry.
    """
    session = await allowed(services, who, session_id, "manage")
    try:
        if session.state != "ended":
            await give(services, who, session.id, End(reason="it was removed"), also=PendingRemoval())
        else:
            await PendingRemovals(services.rows).add(session.id)
        await _remove(services, session)
    except HutchError:
        await PendingRemovals(services.rows).remove(session.id)
        raise


async def finish_removals(services: Services) -> None:
    """Remove the sessions whose removal the end of the last server interrupted."""
    for session_id in await PendingRemovals(services.rows).list():
        try:
            await _remove(services, await Sessions(services.rows).get(session_id))
            logger.info("session.removed", session_id=session_id)
        except HutchError as error:  # the next start retries
            logger.warning("session.not_removed", session_id=session_id, problem=str(error))


async def _remove(services: Services, session: Session) -> None:
    session = await _ended(services, session)
    await services.host.close(session.id, reason="it was removed")
    if session.workspace_id:
        with suppress(NotFound):  # it was removed already
            await services.host.remove_workspace(session.workspace_id)
    await asyncio.to_thread(services.staged.remove, session.id)
    audience = await remove_session(services.rows, session)
    for notify in list(services.on_removed):
        notify(session, audience)


async def _ended(services: Services, session: Session) -> Session:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while session.state != "ended":
                await asyncio.sleep(POLL_INTERVAL_S)
                session = await Sessions(services.rows).get(session.id)
    except TimeoutError:
        raise Conflict(f"The session {session.id} is still ending. Try again in a moment.") from None
    return session
