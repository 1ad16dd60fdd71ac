"""What a user has allowed always: the user of this machine, or one of the server's."""

from hutch.agent.kept import KeptApprovals
from hutch.agent.policy import Rule, parse_rule
from hutch.domain.ids import parse_user_id
from hutch.settings import Paths


def kept_approvals(paths: Paths, user_id: str = "") -> KeptApprovals:
    """Of the user of this machine; or of that user of the server, in a file of their own."""
    if not user_id:
        return KeptApprovals(paths.approvals)
    return KeptApprovals(paths.approvals.with_name("approvals") / f"{parse_user_id(user_id)}.json")


def parse(text: str) -> Rule:
    """A rule that allows, as `told` tells it."""
    return parse_rule(f"allow {text}")
