"""The limits of a run: turns, tokens, money and time."""

from dataclasses import asdict, fields
from typing import Any, Literal

from hutch.system.lazy_dataclass import dataclass

LimitName = Literal["turns", "tokens", "cost_usd", "timeout_s"]


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The limits of a run. None means not set here, so the next source decides."""

    turns: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    timeout_s: float | None = None

    def tightened(self, other: "RunLimits") -> "RunLimits":
        """The smaller of each pair of limits."""
        pairs = ((getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
        return RunLimits(
            *(min((value for value in pair if value is not None), default=None) for pair in pairs)
        )

    def or_else(self, other: "RunLimits") -> "RunLimits":
        """These limits where they are set, and the other ones elsewhere."""
        pairs = ((getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
        return RunLimits(*(mine if mine is not None else theirs for mine, theirs in pairs))

    def as_dict(self) -> dict[str, int | float]:
        """The limits that are set, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def event_fields(self) -> dict[str, Any]:
        """All limits under the field names of `run.started` and `run.resumed`."""
        return {
            "max_turns": self.turns,
            "max_tokens": self.tokens,
            "max_cost_usd": self.cost_usd,
            "timeout_s": self.timeout_s,
        }


NO_LIMITS = RunLimits()
DEFAULT_LIMITS = RunLimits(turns=100, tokens=5_000_000, cost_usd=10.0, timeout_s=1800.0)
