"""The account with a provider: model, address and key."""

from collections.abc import Mapping
from dataclasses import field

from hutch.llm.rejected_key_source import KeySource
from hutch.system.lazy_dataclass import dataclass

MIN_KEY = 8  # a shorter one is a placeholder


@dataclass(frozen=True, slots=True)
class Account:
    """The model to use, the provider's address and the key."""

    provider: str
    model: str
    key: str = field(repr=False)
    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict)  # such as the organization or the project
    key_source: KeySource | None = None

    @property
    def full_name(self) -> str:
        return f"{self.provider}:{self.model}"

    def without_key(self, text: str) -> str:
        """Remove the key from a text of the server, which may repeat the request."""
        return text.replace(self.key, "[the key]") if len(self.key) >= MIN_KEY else text
