"""The hosts that the sessions of members may reach.

An owner lists them in `members.network`, in the syntax of the jail's own allow-list. The
hosts of `jail.network` are open to every jail and need not be listed. `*` stands for every public
host and port. Owners themselves are not capped.
"""

from collections.abc import Sequence
from dataclasses import field, replace

import structlog

from hutch.domain.errors import BadRequest, Denied, NotFound
from hutch.domain.one_line_text import echo
from hutch.domain.session import Session
from hutch.flows.policies.applicable_policies import Policies
from hutch.jail.egress import AllowList, parse_allow_list
from hutch.store.table_access_interface import Rows
from hutch.store.users import Users
from hutch.system.lazy_dataclass import dataclass

logger = structlog.get_logger()

ANY = "*"
SETTING = "members.network"


@dataclass(frozen=True, slots=True)
class NetworkCap:
    """The patterns of hosts that members may allow."""

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


async def session_network(
    cap: NetworkCap, policies: Policies, rows: Rows, session: Session
) -> tuple[str, ...]:
    """The hosts that the jail of a session may reach now.

    A session stores the hosts that it was opened with. The cap, the policies of owners and the roles of its
    users may have changed since, so all are checked each time that a jail opens: at first, after a pause, and
    in a fork.
    """
    if not session.network:
        return ()
    limit = await policies.network_limit(session)
    session = replace(session, network=limit.covered(session.network))
    try:
        is_owner = (await Users(rows).get(session.owner)).role == "owner"
    except NotFound:
        is_owner = False
    if is_owner:
        return session.network
    covered = cap.covered(session.network)
    if left_out := [host for host in session.network if host not in covered]:
        logger.warning("session.network_capped", session_id=session.id, hosts=left_out, setting=SETTING)
    return covered
