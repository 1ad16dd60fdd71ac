"""A jail on a directory that may be worked in."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hutch.domain.errors import Unavailable
from hutch.jail.egress import check_reachable
from hutch.jail.jail import Jailed, start_jail
from hutch.jail.location import JailLocation, to_location
from hutch.jail.network import Outside
from hutch.jail.policy import Policy
from hutch.jail.probe import jail_checks
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
    """A jail on a directory, checked unless Hutch's own directories are None.

    Where no jail can be had, the error says how to fix that, as the doctor does.
    """
    place = await asyncio.to_thread(to_location, workspace)  # once: what is checked is what is opened
    # A place in namespaces of its own is made by Hutch, of layers in its own data. Its name in there would be
    # refused as a directory of the system.
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
    return f"{failed[0].name}: {failed[0].found}. Mend it, then look again with `hutch doctor`:\n{fix}"
