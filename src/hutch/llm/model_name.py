"""How a model is named: `provider:name`, everywhere alike."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from hutch.domain.errors import BadRequest
from hutch.domain.untrusted_text import check_model_name

PROVIDERS = ("anthropic", "openai", "gemini", "ollama", "openai-compatible", "scripted")

WITH_KEY = {  # and the model that is used when nobody names one
    "anthropic": "claude-sonnet-5-5",
    "openai": "gpt-5.5",
    "gemini": "gemini-3.8-flash",
}
ALSO = {"gemini": "GOOGLE_API_KEY"}  # a second environment variable that is usual for a key


@dataclass(frozen=True, slots=True)
class ModelName:
    """A provider, and what it calls the model; for `scripted` that is a file."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


def parse_model_name(text: str) -> ModelName:
    check_model_name(text)  # as it came: strip() would hide a line break at an end
    text = text.strip()
    provider, colon, model = text.partition(":")
    if not colon or not model or provider not in PROVIDERS:
        near = difflib.get_close_matches(provider, PROVIDERS, 1)
        hint = f" Did you mean {near[0]}:{model or 'NAME'}?" if near else ""
        raise BadRequest(
            f"'{text}' names no model.{hint} Write PROVIDER:NAME, such as anthropic:{WITH_KEY['anthropic']}, "
            f"with one of {', '.join(PROVIDERS)}."
        )
    return ModelName(provider, model)


def near_names(name: str, known: Sequence[str], most: int = 3) -> list[str]:
    """The known names that are most like one that is not."""
    small = {each.lower(): each for each in known}
    wanted = name.lower()
    holding = sorted((each for each in small if wanted in each), key=len)
    close = difflib.get_close_matches(wanted, list(small), most, 0.6)
    return [small[each] for each in dict.fromkeys([*close, *holding])][:most]


def key_name(provider: str) -> str:
    """The name under which a provider's key is kept; in capitals, its environment variable."""
    return f"{provider.replace('-', '_')}_api_key"


def key_variables(provider: str) -> tuple[str, ...]:
    """The environment variables in which a provider's key may be, the first that is set counts."""
    return (key_name(provider).upper(), *([ALSO[provider]] if provider in ALSO else []))


def how_to_set(provider: str) -> str:
    """The sentence that tells how a key is set."""
    variables = " or ".join(key_variables(provider))
    return (
        f"Set it with `hutch config set-secret {key_name(provider)}`, or in the environment as {variables}."
    )


def setting_of_address(provider: str) -> str:
    """The setting that holds a provider's address."""
    return f"models.{provider.replace('-', '_')}_base_url"
