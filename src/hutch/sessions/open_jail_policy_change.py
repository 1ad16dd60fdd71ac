"""Gives the open jail of a session another policy."""

from collections.abc import Sequence
from dataclasses import replace

from hutch.jail.policy import Policy
from hutch.sessions.sandbox import Sandbox

GROWTH = ("workspace_growth_bytes", "workspace_growth_files")


async def adjust_jail(sandbox: Sandbox, wanted: Policy) -> Sequence[str]:
    """Apply other limits and hosts. Returns the names of the limits that only a new jail can have.

    The growth of the workspace counts from when its jail was opened, and ends at its quota.
    """
    jail = sandbox.jail
    if (wanted.limits, wanted.network) == (jail.requested_policy.limits, jail.requested_policy.network):
        return jail.waiting
    growth = {name: getattr(jail.policy.limits, name) for name in GROWTH}
    if any(getattr(wanted.limits, name) != getattr(jail.requested_policy.limits, name) for name in GROWTH):
        grown = dict(zip(GROWTH, jail.grown, strict=True))
        free = (await sandbox.workspace.policy(wanted)).limits
        growth = {
            name: min(getattr(wanted.limits, name), getattr(free, name) + max(0, grown[name]))
            for name in GROWTH
        }
    await jail.change(replace(wanted, limits=replace(wanted.limits, **growth)))
    jail.requested_policy = wanted
    return jail.waiting
