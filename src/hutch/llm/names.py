"""How a model is named: `provider:name`, everywhere alike."""

import difflib
from dataclasses import dataclass

from hutch.domain.errors import BadRequest

PROVIDERS = ("anthropic", "openai", "gemini", "ollama", "openai-compatible", "scripted")

WITH_KEY = {  # and the model that is used when nobody names one
    "anthropic": "claude-sonnet-5-5",
    "openai": "gpt-5.5",
    "gemini": "gemini-3.8-flash",
}


@dataclass(frozen=True, slots=True)
class ModelName:
    """A provider, and what it calls the model; for `scripted` that is a file."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


def parse_model_name(text: str) -> ModelName:
    provider, colon, model = text.strip().partition(":")
    if not colon or not model or provider not in PROVIDERS:
        near = difflib.get_close_matches(provider, PROVIDERS, 1)
        hint = f" Did you mean {near[0]}:{model or 'NAME'}?" if near else ""
        raise BadRequest(
            f"'{text}' names no model.{hint} Write PROVIDER:NAME, such as anthropic:claude-sonnet-4-5, "
            f"with one of {', '.join(PROVIDERS)}."
        )
    return ModelName(provider, model)


def key_name(provider: str) -> str:
    """The name under which a provider's key is kept; in capitals, its environment variable."""
    return f"{provider.replace('-', '_')}_api_key"


def how_to_set(provider: str) -> str:
    """The sentence that tells how a key is set."""
    name = key_name(provider)
    return f"Set it with `hutch config set-secret {name}`, or in the environment as {name.upper()}."
