"""How a model writes its replies: temperature, maximum length and thinking effort."""

from dataclasses import asdict, fields
from typing import Any, Literal

from hutch.system.lazy_dataclass import dataclass

Effort = Literal["low", "medium", "high"]
MAX_TEMPERATURE = 2.0
MAX_REPLY_TOKENS = 1_000_000


@dataclass(frozen=True, slots=True)
class Generation:
    """Options of a model's replies. None means not set here, so the next source decides."""

    temperature: float | None = None
    max_reply_tokens: int | None = None
    effort: Effort | None = None  # of its thinking

    def or_else(self, other: "Generation") -> "Generation":
        """These options where they are set, and the other ones elsewhere."""
        pairs = ((getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
        return Generation(*(mine if mine is not None else theirs for mine, theirs in pairs))

    def as_dict(self) -> dict[str, Any]:
        """The options that are set, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


NO_GENERATION = Generation()
