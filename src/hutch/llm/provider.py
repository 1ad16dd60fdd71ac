"""Which model to ask, at which address, with which key: the same for every provider."""

from collections.abc import Mapping
from dataclasses import dataclass, field

MIN_KEY = 8  # a shorter one stands for no key


@dataclass(frozen=True, slots=True)
class Account:
    """Which model to ask, at which address, with which key."""

    provider: str
    model: str
    key: str = field(repr=False)
    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict)  # that name an organization or a project

    @property
    def full_name(self) -> str:
        return f"{self.provider}:{self.model}"

    def without_key(self, text: str) -> str:
        """A text of the server, which may repeat what it was sent."""
        return text.replace(self.key, "[the key]") if len(self.key) >= MIN_KEY else text
