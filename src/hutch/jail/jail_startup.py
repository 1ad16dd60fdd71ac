"""Opens a jail: starts bubblewrap with a warden in it, and ends everything inside when it is closed.

`open_jail` owns everything: leaving the block kills all processes inside. When a caller
is cancelled while a jail opens, the jail is opened completely and then closed, so that
nothing of it remains.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hutch.domain.errors import HutchError, Unavailable
from hutch.jail.egress import parse_allow_list
from hutch.jail.egress_proxy_startup import Outside
from hutch.jail.jail_directory_and_namespaces import JailLocation, OpenLocation, to_location
from hutch.jail.launch.bubblewrap_launch import launch, launch_unsafe
from hutch.jail.launch.jail_uid import Identity, claim_identity
from hutch.jail.limits.limit_enforcement import Meter, make_group
from hutch.jail.policy import AGENT, Policy
from hutch.jail.running_jail import Jailed

__all__ = ["Jailed", "open_jail", "start_jail"]

DEFAULT_OUTSIDE = Outside()
NO_CPUS = (
    "cpus limits the processors of a jail, but jails have no cgroup with the cpu controller here. Unset "
    "jail.cpus and members.cpus, or give Hutch a cgroup: hutch doctor says how."
)


@asynccontextmanager
async def open_jail(
    workspace: str | os.PathLike[str] | JailLocation,
    policy: Policy = AGENT,
    *,
    unsafe_no_jail: bool = False,
    outside: Outside = DEFAULT_OUTSIDE,
) -> AsyncIterator[Jailed]:
    """Open a jail on a directory, a plain one in place. Everything in it is killed when the block is left."""
    jail = await start_jail(workspace, policy, unsafe_no_jail=unsafe_no_jail, outside=outside)
    try:
        yield jail
    finally:
        await asyncio.shield(asyncio.ensure_future(jail.close()))


async def start_jail(
    workspace: str | os.PathLike[str] | JailLocation,
    policy: Policy = AGENT,
    *,
    unsafe_no_jail: bool = False,
    outside: Outside = DEFAULT_OUTSIDE,
) -> Jailed:
    """Like `open_jail`, for callers that close it themselves."""
    opening = asyncio.ensure_future(_start(workspace, policy, unsafe_no_jail, outside))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:  # finish opening, which is quick, and then close
        await asyncio.shield(asyncio.ensure_future(_abandon(opening)))
        raise


async def _abandon(opening: asyncio.Future[Jailed]) -> None:
    with contextlib.suppress(HutchError):
        await (await opening).close()


async def _start(
    workspace: str | os.PathLike[str] | JailLocation, policy: Policy, unsafe_no_jail: bool, outside: Outside
) -> Jailed:
    parse_allow_list(policy.network)
    location = await asyncio.to_thread(to_location, workspace)
    if unsafe_no_jail and location.namespaces is not None:
        raise Unavailable(
            f"'{location.directory}' consists of layers that only a jail can mount. Use a copy."
        )
    opened = await asyncio.to_thread(OpenLocation, location)
    with contextlib.closing(opened):
        return await _start_on(opened, policy, unsafe_no_jail, outside)


async def _start_on(opened: OpenLocation, policy: Policy, unsafe_no_jail: bool, outside: Outside) -> Jailed:
    location = opened.location
    if unsafe_no_jail:
        identity, group = Identity(os.geteuid(), os.getegid()), None
    else:
        identity = location.identity.lend() if location.identity else claim_identity()
        group = await asyncio.to_thread(make_group, policy.limits)
        if policy.limits.cpus is not None and (group is None or not group.limits_cpus):
            identity.release()
            if group is not None:
                await asyncio.to_thread(group.remove)
            raise Unavailable(NO_CPUS)
    meter = Meter(policy.limits, group, opened)
    rlimits = meter.rlimits(policy.limits, unsafe=unsafe_no_jail)
    try:
        if unsafe_no_jail:
            launched = await launch_unsafe(location.directory, rlimits=rlimits)
        else:
            launched = await launch(location, policy, identity, has_cgroup=meter.has_cgroup, rlimits=rlimits)
    except BaseException:
        identity.release()
        await meter.remove()
        raise
    jail = Jailed(
        policy,
        launched=launched,
        identity=identity,
        meter=meter,
        directory=location.written,
        unsafe=unsafe_no_jail,
    )
    try:
        await jail.ready(outside)
    except BaseException:
        await asyncio.shield(asyncio.ensure_future(jail.close()))
        raise
    return jail
