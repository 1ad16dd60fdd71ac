"""What a run was started with, for whoever takes it up again."""

from dataclasses import dataclass
from typing import Any

from hutch.agent.limits import NOTHING_SAID, RunLimits


@dataclass(frozen=True, slots=True)
class Terms:
    """What was asked for beside the prompt."""

    network: tuple[str, ...] = ()  # hosts, beside those of the settings
    limits: RunLimits = NOTHING_SAID
    record: str = ""  # where the model's replies are kept as a cassette
    deliver: bool = True
    author: str = ""  # Name <address>
    model_reason: str = ""  # why it is this model

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
