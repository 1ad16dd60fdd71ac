"""Jails, with the policy that the settings define."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

from hutch.app.allowed_repositories import own_directories
from hutch.domain.commit_text import DEFAULT_AUTHOR
from hutch.jail.egress.attempt import Report
from hutch.jail.egress_startup import Outside
from hutch.jail.jail_startup import Jailed
from hutch.jail.location import JailLocation
from hutch.jail.policy import Policy, profile
from hutch.settings import Settings, find_paths
from hutch.workspace.admission.checked_directory_jail import open_checked_jail

NETWORK_SETTINGS = ("network", "private_networks")  # the other settings of a jail are limits
TMPFS_SHARE = 5 / 8  # of the jail's memory, when its tmpfs could use all of it


def jail_policy(
    settings: Settings, *, profile_name: str = "agent", network: Sequence[str] = (), author: str = ""
) -> Policy:
    """The policy of a jail: the settings for agents; other profiles take the lower of their limits and these.

    Files in /tmp, /dev/shm and home use memory: limits that would allow all of it are reduced to a share.
    """
    known = profile(profile_name)
    limits = {name: value for name, value in settings.jail if name not in NETWORK_SETTINGS}
    if known.profile != "agent":
        limits = {name: min(value, getattr(known.limits, name)) for name, value in limits.items()}
    limits["file_bytes"] = max(known.limits.file_bytes, limits["workspace_growth_bytes"])
    tmpfs = ("tmp_bytes", "shm_bytes", "home_bytes")
    total = sum(limits[name] for name in tmpfs)
    if total >= limits["memory_bytes"]:
        share = TMPFS_SHARE * limits["memory_bytes"] / total
        limits |= {name: int(limits[name] * share) for name in tmpfs}
    return replace(
        known,
        limits=replace(known.limits, **limits),
        network=tuple(dict.fromkeys((*settings.jail.network, *network))),
        git_author=author or settings.delivery.author or DEFAULT_AUTHOR,
    )


def egress_options(settings: Settings, on_egress: Report) -> Outside:
    """The options of a jail's proxy, which runs even if no host is allowed: it refuses immediately."""
    return Outside(on_egress=on_egress, also_allow_networks=settings.jail.private_networks, always=True)


def open_jail(
    workspace: Path | JailLocation,
    policy: Policy,
    *,
    outside: Outside | None = None,
    unsafe_workspace: bool = False,
    unsafe_no_jail: bool = False,
) -> AbstractAsyncContextManager[Jailed]:
    """Open a jail on a directory, after checking that it may be used as a workspace."""
    own = None if unsafe_workspace or unsafe_no_jail else own_directories(find_paths())
    return open_checked_jail(workspace, policy, own, outside=outside, unsafe_no_jail=unsafe_no_jail)
