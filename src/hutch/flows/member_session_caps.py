"""Caps on what members may ask for in their sessions: hosts, resources of commands, limits of runs.

An owner sets it in `members.*`. The caps are checked when a member asks, by any interface, and again
whenever a jail opens or a run starts, since the settings or the owner's role may have changed since.
Owners themselves are not capped.
"""

from collections.abc import Sequence
from dataclasses import field, fields, replace

from hutch.domain.byte_size_formatting import readable_size
from hutch.domain.errors import Denied, NotFound
from hutch.domain.run_limits import NO_LIMITS, RunLimits
from hutch.domain.session import NewSession, Session
from hutch.domain.session_jail_resource_limits import NO_RESOURCES, Resources
from hutch.flows.member_network_cap import NetworkCap
from hutch.store.table_access_interface import Rows
from hutch.store.users import Users
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class MemberCaps:
    """The caps on members."""

    network: NetworkCap = field(default_factory=NetworkCap)
    resources: Resources = NO_RESOURCES
    limits: RunLimits = NO_LIMITS

    def check(self, network: Sequence[str], resources: Resources, limits: RunLimits) -> None:
        """Refuse a request for more than members may have."""
        self.network.check(network)
        _check(resources, self.resources, "members.")
        _check(limits, self.limits, "members.run_")

    def lower(self, new: NewSession) -> NewSession:
        """The request with no more than members may have."""
        asked = new.resources.as_dict()
        capped = new.resources.tightened(self.resources)
        return replace(
            new,
            network=self.network.covered(new.network),
            resources=Resources(**{name: getattr(capped, name) for name in asked}),
            limits=RunLimits(
                **{name: getattr(new.limits.tightened(self.limits), name) for name in new.limits.as_dict()}
            ),
        )


def _check(asked: Resources | RunLimits, cap: Resources | RunLimits, prefix: str) -> None:
    for each in fields(asked):
        value, most = getattr(asked, each.name), getattr(cap, each.name)
        if value is not None and most is not None and value > most:
            raise Denied(
                f"Members may ask for at most {_text(each.name, most)} of {each.name}, not "
                f"{_text(each.name, value)}. An owner can raise {prefix}{each.name}."
            )


def _text(name: str, value: float) -> str:
    if name.endswith("_bytes"):
        return readable_size(int(value))
    return f"{value:,g}" if value < 1e15 else f"{value:g}"


async def is_capped(rows: Rows, session: Session) -> bool:
    """True if the caps apply to a session now: its owner is not, or no longer, an owner of the server."""
    try:
        return (await Users(rows).get(session.owner)).role != "owner"
    except NotFound:
        return True
