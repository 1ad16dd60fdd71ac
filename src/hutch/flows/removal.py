"""Removing a session: it is ended, its files are deleted, and it is in no list any more."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from sqlalchemy import Connection

from hutch.domain.errors import Conflict, NotFound
from hutch.domain.inputs import End
from hutch.domain.session import Session
from hutch.domain.user import Who
from hutch.flows.sessions import allowed, give
from hutch.flows.site import Site
from hutch.store.batches import shares_of
from hutch.store.removal import remove_session
from hutch.store.sessions import Sessions

PATIENCE_S = 20.0  # for whatever is under way in it
LOOK_S = 0.05
RemoveWorkspace = Callable[[str], Awaitable[None]]


async def remove(site: Site, who: Who, session_id: str, remove_workspace: RemoveWorkspace) -> None:
    """End a session and delete its workspace. Its log stays, as everything that happened does."""
    session = await allowed(site, who, session_id, "manage")
    if session.state != "ended":
        await give(site, who, session.id, End(reason="it was removed"))
        session = await _ended(site, session)
    await site.host.close(session.id, reason="it was removed")
    if session.workspace_id:
        with suppress(NotFound):  # somebody else has tidied up
            await remove_workspace(session.workspace_id)

    def take_away(connection: Connection) -> frozenset[str]:
        shared = shares_of(connection, [session.id]).get(session.id, [])
        remove_session(connection, session.id)
        return frozenset({session.owner, *(each.user_id for each in shared)})

    audience = await site.rows.change(take_away)
    for told in list(site.on_removed):
        told(session, audience)


async def _ended(site: Site, session: Session) -> Session:
    try:
        async with asyncio.timeout(PATIENCE_S):
            while session.state != "ended":
                await asyncio.sleep(LOOK_S)
                session = await Sessions(site.rows).get(session.id)
    except TimeoutError:
        raise Conflict(f"The session {session.id} is still ending. Try again in a moment.") from None
    return session
