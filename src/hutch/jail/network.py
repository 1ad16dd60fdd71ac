"""The only way out of a jail that has one: a socket inside, answered from out here.

A jail has a network of its own with nothing on it but loopback. When its policy
names hosts, or refusals are to be told, the warden makes a listening socket in there before the first
command runs, and this process serves it as a proxy for as long as the jail lives.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

import structlog

from hutch.jail.egress import EgressAttempt, EgressLimits, Resolve, serve_egress
from hutch.jail.egress.attempt import Report
from hutch.jail.interface import Jail

logger = structlog.get_logger()


def log_attempt(attempt: EgressAttempt) -> None:
    """Tell the log, when nobody else wants to know."""
    if attempt.duration_s is not None or not attempt.allowed:
        logger.info(
            "egress.attempted",
            host=attempt.host,
            port=attempt.port,
            allowed=attempt.allowed,
            reason=attempt.reason,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What a jail finds behind its proxy, and who is told. The allowed hosts are in its policy."""

    on_egress: Report = log_attempt  # every attempt, allowed or not; called in the loop, returns at once
    also_allow_networks: tuple[str, ...] = ()  # the operator's: private networks that names may lead to
    always: bool = False  # a proxy even when no host is allowed: it refuses at once, with a word why
    resolve: Resolve | None = None  # the host's own, when not given
    limits: EgressLimits | None = None


class WayOut:
    """A proxy at work."""

    def __init__(self, environment: Mapping[str, str], opened: AsyncExitStack) -> None:
        self.environment = environment  # what makes programs use it
        self._opened = opened

    async def close(self) -> None:
        await self._opened.aclose()


async def open_way_out(jail: Jail, outside: Outside) -> WayOut:
    """Let a jail reach the hosts that its policy names."""
    listener = await jail.listen()
    opened = AsyncExitStack()
    egress = await opened.enter_async_context(
        serve_egress(
            listener,
            jail.policy.network,
            outside.on_egress,
            resolve=outside.resolve,
            also_allow_networks=outside.also_allow_networks,
            limits=outside.limits,
        )
    )
    return WayOut(egress.environment(), opened)
