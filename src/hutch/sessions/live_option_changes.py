"""Applies changed options of a session to its open jail."""

from collections.abc import Sequence

import structlog

from hutch.sessions.live_session import LiveSession

logger = structlog.get_logger()

NEW_JAIL = "its new limits need a new jail: {names}"


async def apply_changes(live: LiveSession) -> Sequence[str]:
    """Apply the network and limits of the session's row, if a jail is open.

    Returns the names of the limits that wait for a new jail. If nothing uses the session, it is parked, so
    that its next use has one.
    """
    waiting = await live.adjust()
    if waiting and not live.busy:
        await live.park(reason=NEW_JAIL.format(names=", ".join(waiting)))
        return ()
    return waiting
