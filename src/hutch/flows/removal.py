"""Removing a session: it is ended, its files are deleted, and it is in no list any more."""

import asyncio
from contextlib import suppress

import structlog

from hutch.domain.errors import Conflict, HutchError, NotFound
from hutch.domain.inputs import End
from hutch.domain.session import Session
from hutch.domain.user import Caller
from hutch.flows.services import Services
from hutch.flows.sessions import allowed, give
from hutch.store.session_removal import PendingRemoval, PendingRemovals, remove_session
from hutch.store.sessions import Sessions

TIMEOUT_S = 20.0  # for whatever is under way in it
POLL_INTERVAL_S = 0.05
logger = structlog.get_logger()


async def remove(services: Services, who: Caller, session_id: str) -> None:
    """End a session and delete its workspace. Its log stays, as everything that happened does.

    It is written down first. So the next start finishes what a crash has cut, and not what failed by itself:
    that is answered with an error, and can be asked for again.
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
    """Remove the sessions whose removal was cut by the end of the last server."""
    for session_id in await PendingRemovals(services.rows).list():
        try:
            await _remove(services, await Sessions(services.rows).get(session_id))
            logger.info("session.removed", session_id=session_id)
        except HutchError as error:  # the next start tries again
            logger.warning("session.not_removed", session_id=session_id, problem=str(error))


async def _remove(services: Services, session: Session) -> None:
    session = await _ended(services, session)
    await services.host.close(session.id, reason="it was removed")
    if session.workspace_id:
        with suppress(NotFound):  # somebody else has tidied up
            await services.host.remove_workspace(session.workspace_id)
    audience = await remove_session(services.rows, session)
    for told in list(services.on_removed):
        told(session, audience)


async def _ended(services: Services, session: Session) -> Session:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while session.state != "ended":
                await asyncio.sleep(POLL_INTERVAL_S)
                session = await Sessions(services.rows).get(session.id)
    except TimeoutError:
        raise Conflict(f"The session {session.id} is still ending. Try again in a moment.") from None
    return session
