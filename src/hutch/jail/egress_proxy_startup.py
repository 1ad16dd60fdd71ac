"""The egress proxy of a jail: a socket inside, served by the host.

A jail has its own network namespace with nothing but loopback. When its policy names
hosts, or refusals must be reported, the warden makes a listening socket inside before
the first command runs. This process serves it as a proxy while the jail is open.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack

import structlog

from hutch.jail.egress import Admit, Egress, EgressAttempt, EgressLimits, Resolve, serve_egress
from hutch.jail.egress.egress_attempt_and_limit_types import Report
from hutch.jail.interface import Jail
from hutch.system.lazy_dataclass import dataclass

logger = structlog.get_logger()


def log_attempt(attempt: EgressAttempt) -> None:
    """Log an attempt, when no other callback is given."""
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
    """How a jail's proxy behaves and where it reports. The allowed hosts are in the jail's policy."""

    on_egress: Report = log_attempt  # for every attempt, allowed or not; in the event loop, must not block
    also_allow_networks: tuple[str, ...] = ()  # the operator's: private networks that names may resolve to
    always: bool = False  # run a proxy even when no host is allowed: it refuses with a reason
    resolve: Resolve | None = None  # by default the host's own
    limits: EgressLimits | None = None
    admit: Admit | None = None  # may refuse an attempt to reach a host of the policy


class EgressProxy:
    """A running proxy."""

    def __init__(self, egress: Egress, stack: AsyncExitStack) -> None:
        self._egress = egress
        self._stack = stack

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make programs use it."""
        return self._egress.environment()

    async def change(self, allow: Sequence[str]) -> None:
        """Allow these hosts from now on."""
        await self._egress.change(allow)

    async def close(self) -> None:
        await self._stack.aclose()


async def open_egress(jail: Jail, outside: Outside) -> EgressProxy:
    """Start a proxy through which a jail reaches the hosts of its policy."""
    listener = await jail.listen()
    stack = AsyncExitStack()
    egress = await stack.enter_async_context(
        serve_egress(
            listener,
            jail.policy.network,
            outside.on_egress,
            resolve=outside.resolve,
            also_allow_networks=outside.also_allow_networks,
            limits=outside.limits,
            admit=outside.admit,
        )
    )
    return EgressProxy(egress, stack)
