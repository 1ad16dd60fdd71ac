"""What a run was started with, for whoever takes it up again."""

from dataclasses import dataclass
from typing import Any

from hutch.agent.limits import NOTHING_SAID, RunLimits
from hutch.domain.events import RunStarted


@dataclass(frozen=True, slots=True)
class Terms:
    """What was asked for beside the prompt."""

    network: tuple[str, ...] = ()  # hosts, beside those of the settings
    limits: RunLimits = NOTHING_SAID
    record: str = ""  # where the model's replies are kept as a cassette
    deliver: bool = True
    author: str = ""  # Name <address>
    model_reason: str = ""  # why it is this model

    @classmethod
    def of(cls, started: RunStarted) -> "Terms":
        """As a log has them."""
        limits = RunLimits(started.max_turns, started.max_tokens, started.max_cost_usd, started.timeout_s)
        return cls(started.network, limits, started.record, started.deliver, started.author)

    def fields(self) -> dict[str, Any]:
        """As fields of the event."""
        return {
            "network": self.network,
            "max_turns": self.limits.turns,
            "max_tokens": self.limits.tokens,
            "max_cost_usd": self.limits.cost_usd,
            "timeout_s": self.limits.timeout_s,
            "record": self.record,
            "deliver": self.deliver,
            "author": self.author,
            "model_reason": self.model_reason,
        }
