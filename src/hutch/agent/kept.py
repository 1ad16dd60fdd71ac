"""What a person has allowed always, for every repository of theirs, until they withdraw it."""

from collections.abc import Iterable, Sequence

from hutch.agent.policy import Rule, parse_rule
from hutch.store.approval_rules import ApprovalRule, ApprovalRules
from hutch.store.rows import Rows


class KeptApprovals:
    """Rules of one user that allow."""

    def __init__(self, rows: Rows, user_id: str) -> None:
        self._kept, self._user_id = ApprovalRules(rows), user_id

    async def rules(self) -> tuple[Rule, ...]:
        """All of them, the oldest first."""
        return tuple(Rule("allow", tool, pattern) for tool, pattern in await self._kept.list(self._user_id))

    async def keep(self, rules: Iterable[Rule]) -> None:
        """Add rules; those that are there already stay once."""
        await self._kept.add(self._user_id, _rows_of(rules))

    async def withdraw(self, rules: Sequence[Rule]) -> None:
        """Take rules away: from now on they are asked about again."""
        await self._kept.remove(self._user_id, _rows_of(rules))


def to_text(rule: Rule) -> str:
    """A rule that allows, as people say it."""
    return f"{rule.tool} {rule.pattern}".rstrip()


def parse_kept(text: str) -> Rule:
    """A rule that allows, as `to_text` shows it."""
    return parse_rule(f"allow {text}")


def _rows_of(rules: Iterable[Rule]) -> list[ApprovalRule]:
    return [(rule.tool, rule.pattern) for rule in rules]
