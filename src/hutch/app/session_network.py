"""The hosts that a session's jail may reach, as of now.

A session keeps the hosts that it was opened with. The cap and its owner's role may have changed
since, so both are looked at each time that a jail opens: at first, after a pause, and in a fork.
"""

import structlog

from hutch.domain.errors import NotFound
from hutch.domain.session import Session
from hutch.flows.network_cap import SETTING, NetworkCap, parse_network_cap
from hutch.settings import Loaded
from hutch.store.rows import Rows
from hutch.store.users import Users

logger = structlog.get_logger()


def network_cap(loaded: Loaded) -> NetworkCap:
    return parse_network_cap(loaded.settings.server.network_allowed, loaded.settings.jail.network)


async def session_network(loaded: Loaded, rows: Rows, session: Session) -> tuple[str, ...]:
    """Its hosts, without those that its owner may not allow any more."""
    if not session.network:
        return ()
    try:
        is_owner = (await Users(rows).get(session.owner)).role == "owner"
    except NotFound:
        is_owner = False
    if is_owner:
        return session.network
    covered = network_cap(loaded).covered(session.network)
    if left_out := [host for host in session.network if host not in covered]:
        logger.warning("session.network_capped", session_id=session.id, hosts=left_out, setting=SETTING)
    return covered
