"""Saved, permanent approvals: they hold in all repositories of a user until the user withdraws them."""

from collections.abc import Iterable, Sequence

from hutch.agent.tool_call_rules import Rule, parse_rule
from hutch.store.permanent_approvals import ApprovalRule, ApprovalRules
from hutch.store.table_access_interface import Rows


class SavedApprovals:
    """The stored allow rules of one user."""

    def __init__(self, rows: Rows, user_id: str) -> None:
        self._store, self._user_id = ApprovalRules(rows), user_id

    async def rules(self) -> tuple[Rule, ...]:
        """All rules, oldest first."""
        return tuple(Rule("allow", tool, pattern) for tool, pattern in await self._store.list(self._user_id))

    async def add(self, rules: Iterable[Rule]) -> None:
        """Add rules; duplicates are stored once."""
        await self._store.add(self._user_id, _rows_of(rules))

    async def withdraw(self, rules: Sequence[Rule]) -> None:
        """Remove rules: calls that they covered need approval again."""
        await self._store.remove(self._user_id, _rows_of(rules))


def to_text(rule: Rule) -> str:
    """An allow rule as text, without the word allow."""
    return f"{rule.tool} {rule.pattern}".rstrip()


def parse_approval(text: str) -> Rule:
    """Read an allow rule that `to_text` wrote."""
    return parse_rule(f"allow {text}")


def _rows_of(rules: Iterable[Rule]) -> list[ApprovalRule]:
    return [(rule.tool, rule.pattern) for rule in rules]
