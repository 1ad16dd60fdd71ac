"""What this user has allowed always."""

from hutch.agent.kept import KeptApprovals, told
from hutch.agent.policy import Rule, parse_rule
from hutch.settings import Paths

__all__ = ["KeptApprovals", "Rule", "kept_approvals", "parse", "told"]


def kept_approvals(paths: Paths) -> KeptApprovals:
    return KeptApprovals(paths.approvals)


def parse(text: str) -> Rule:
    """A rule that allows, as `told` tells it."""
    return parse_rule(f"allow {text}")
