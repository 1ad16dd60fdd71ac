"""Which hosts the sessions of members may reach.

An owner lists them in `server.network_allowed`, in the syntax of the jail's own allow-list. The
hosts of `jail.network` are open to every jail and need not be listed. `*` stands for every public
host and port. Owners themselves are not capped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hutch.domain.errors import BadRequest, Denied
from hutch.domain.printable import echo
from hutch.jail.egress import AllowList, parse_allow_list

ANY = "*"
SETTING = "server.network_allowed"


@dataclass(frozen=True, slots=True)
class NetworkCap:
    """The patterns that members may choose from."""

    patterns: AllowList = field(default_factory=lambda: AllowList(()))
    has_any: bool = False

    def covered(self, hosts: Sequence[str]) -> tuple[str, ...]:
        """Those of the hosts that members may allow."""
        if self.has_any:
            return tuple(hosts)
        return tuple(host for host in hosts if self.patterns.covers(parse_allow_list([host]).patterns[0]))

    def check(self, hosts: Sequence[str]) -> None:
        """Refuse a request for a host outside the cap."""
        covered = self.covered(hosts)
        for host in hosts:
            if host not in covered:
                listed = ", ".join(map(str, self.patterns.patterns)) or "none"
                raise Denied(
                    f"Members may not allow the host {echo(host, 200)}; they may allow: {listed}. "
                    f"An owner can add it to {SETTING}."
                )


def parse_network_cap(allowed: Sequence[str], always: Sequence[str] = ()) -> NetworkCap:
    """Read the setting; `always` are hosts that every jail may reach."""
    try:
        named = parse_allow_list([each for each in allowed if each != ANY])
    except BadRequest as error:
        raise BadRequest(f"{SETTING}: {error}") from None
    return NetworkCap(AllowList((*named.patterns, *parse_allow_list(always).patterns)), ANY in allowed)
