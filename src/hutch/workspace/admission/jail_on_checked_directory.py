"""Opens a jail on a directory after checking that it may be worked in."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hutch.domain.errors import Unavailable
from hutch.jail.egress import check_reachable
from hutch.jail.egress_proxy_startup import Outside
from hutch.jail.jail_directory_and_namespaces import JailLocation, to_location
from hutch.jail.jail_startup import Jailed, start_jail
from hutch.jail.machine_checks import jail_checks
from hutch.jail.policy import Policy
from hutch.workspace.admission.directory_checks import OwnDirectories, check_workspace


@asynccontextmanager
async def open_checked_jail(
    workspace: Path | JailLocation,
    policy: Policy,
    own: OwnDirectories | None,
    *,
    outside: Outside | None = None,
    unsafe_no_jail: bool = False,
) -> AsyncIterator[Jailed]:
    """Open a jail on a directory. `own` None skips the check.

    If no jail can be started, the error contains the same advice as `hutch doctor`.
    """
    # Resolved once, so that the checked directory is the opened one.
    place = await asyncio.to_thread(to_location, workspace)
    # A place with its own namespaces was mounted by Hutch from its own data. Its path in there would be
    # refused as a system directory.
    if own is not None and place.namespaces is None:
        pinned = place.pinned[0] if place.pinned else None
        await asyncio.to_thread(check_workspace, place.directory, own, pinned)
    outside = outside or Outside()
    check_reachable(policy.network, outside.also_allow_networks)
    try:
        jail = await start_jail(place, policy, unsafe_no_jail=unsafe_no_jail, outside=outside)
    except Unavailable as error:
        raise Unavailable(
            f"No jail, so nothing was run. {await asyncio.to_thread(_advice, error)}"
        ) from error
    try:
        yield jail
    finally:
        await asyncio.shield(asyncio.ensure_future(jail.close()))


def _advice(error: Unavailable) -> str:
    failed = [check for check in jail_checks() if check.status == "fail"]
    if not failed:
        return str(error)
    fix = failed[0].fix if os.geteuid() else failed[0].fix.replace("sudo ", "")
    return f"{failed[0].name}: {failed[0].found}. Fix it, then check again with `hutch doctor`:\n{fix}"
