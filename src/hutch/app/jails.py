"""Jails, shells and terminals, under the rules that the settings give."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hutch.app.ground import check_ground
from hutch.domain.errors import Unavailable
from hutch.jail.egress import EgressAttempt, check_reachable
from hutch.jail.egress.attempt import Report
from hutch.jail.jail import Jailed, start_jail
from hutch.jail.network import Outside
from hutch.jail.place import Place, in_place
from hutch.jail.policy import Policy, profile
from hutch.jail.probe import jail_checks
from hutch.jail.shell.result import (
    CommandEnded,
    CommandStarted,
    CommandYielded,
    JobsEnded,
    JobsLeft,
    ShellEvent,
)
from hutch.settings import Settings, find_paths

if TYPE_CHECKING:
    from hutch.domain import events


TMPFS_SHARE = 5 / 8  # of the jail's memory, when its tmpfs would take all of it


def jail_policy(settings: Settings, *, profile_name: str = "agent", network: Sequence[str] = ()) -> Policy:
    """The rules of a jail: the settings for agents; another profile keeps the tighter of its own and them.

    Files in /tmp, /dev/shm and home are memory: where they were allowed all of it, they are cut to a part.
    """
    known = profile(profile_name)
    limits = {name: value for name, value in settings.jail if not name.startswith("network")}
    if known.profile != "agent":
        limits = {name: min(value, getattr(known.limits, name)) for name, value in limits.items()}
    limits["file_bytes"] = max(known.limits.file_bytes, limits["workspace_growth_bytes"])
    tmpfs = ("tmp_bytes", "shm_bytes", "home_bytes")
    wanted = sum(limits[name] for name in tmpfs)
    if wanted >= limits["memory_bytes"]:
        share = TMPFS_SHARE * limits["memory_bytes"] / wanted
        limits |= {name: int(limits[name] * share) for name in tmpfs}
    return replace(
        known,
        limits=replace(known.limits, **limits),
        network=tuple(dict.fromkeys((*settings.jail.network, *network))),
    )


def way_out(settings: Settings, on_egress: Report) -> Outside:
    """What a jail finds behind its proxy; one is there even when no host is allowed, to say so at once."""
    return Outside(on_egress=on_egress, also_allow_networks=settings.jail.network_also, always=True)


@asynccontextmanager
async def open_jail(
    workspace: Path | Place,
    policy: Policy,
    *,
    outside: Outside | None = None,
    unsafe_workspace: bool = False,
    unsafe_no_jail: bool = False,
) -> AsyncIterator[Jailed]:
    """A jail on a directory. Where none can be had, the error says how to mend that, as the doctor does."""
    place = await asyncio.to_thread(in_place, workspace)  # once: what is checked is what is opened
    if not unsafe_workspace and not unsafe_no_jail:
        pinned = place.pinned[0] if place.pinned else None
        await asyncio.to_thread(check_ground, place.directory, find_paths(), pinned)
    outside = outside or Outside()
    check_reachable(policy.network, outside.also_allow_networks)
    try:
        jail = await start_jail(place, policy, unsafe_no_jail=unsafe_no_jail, outside=outside)
    except Unavailable as error:
        raise Unavailable(f"No jail, so nothing was run. {await asyncio.to_thread(_mend, error)}") from error
    try:
        yield jail
    finally:
        await asyncio.shield(asyncio.ensure_future(jail.close()))


def as_event(told: ShellEvent | EgressAttempt) -> "events.Event":
    """What a jail tells of its commands and its network, as the log keeps it."""
    from hutch.domain import events

    match told:
        case CommandStarted():
            return events.CommandStarted(shell=told.shell, command=told.command, cwd=told.cwd)
        case CommandYielded():
            return events.CommandYielded(shell=told.shell, command=told.command, background_id=told.id)
        case CommandEnded():
            return events.CommandEnded(
                shell=told.shell,
                command=told.command,
                cwd=told.cwd,
                exit_code=told.exit_code,
                signal=told.signal,
                timed_out=told.timed_out,
                duration_s=round(told.duration_s, 6),
                background_id=told.id,
            )
        case JobsLeft():
            return events.JobsLeft(shell=told.shell)
        case JobsEnded():
            return events.JobsEnded(shell=told.shell)
        case EgressAttempt():
            return events.EgressAttempted(
                method=told.method, host=told.host, port=told.port, allowed=told.allowed, reason=told.reason
            )


def _mend(error: Unavailable) -> str:
    failed = [check for check in jail_checks() if check.status == "fail"]
    if not failed:
        return str(error)
    fix = failed[0].fix if os.geteuid() else failed[0].fix.replace("sudo ", "")
    return f"{failed[0].name}: {failed[0].found}. Mend it, then look again with `hutch doctor`:\n{fix}"
