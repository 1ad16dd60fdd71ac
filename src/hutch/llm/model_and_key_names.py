"""Names of models: `provider:name`."""

import difflib
from collections.abc import Mapping, Sequence

from hutch.domain.errors import BadRequest
from hutch.domain.one_line_text import check_model_name
from hutch.system.lazy_dataclass import dataclass

PROVIDERS = ("anthropic", "openai", "gemini", "ollama", "openai-compatible", "scripted")

WITH_KEY = {  # providers that need a key, with their default models
    "anthropic": "claude-sonnet-5-5",
    "openai": "gpt-5.5",
    "gemini": "gemini-3.8-flash",
}
ALSO = {"gemini": "GOOGLE_API_KEY"}  # a second common environment variable for the key
OPENAI_HEADERS = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}


@dataclass(frozen=True, slots=True)
class ModelName:
    """A provider, and its name for the model; for `scripted` that is a file."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


def parse_model_name(text: str) -> ModelName:
    check_model_name(text)  # unstripped: strip() would hide a line break at the end
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


def near_names(name: str, known: Sequence[str], max_names: int = 3) -> list[str]:
    """The known names that are most similar to an unknown one."""
    by_lower = {each.lower(): each for each in known}
    lower = name.lower()
    containing = sorted((each for each in by_lower if lower in each), key=len)
    close = difflib.get_close_matches(lower, list(by_lower), max_names, 0.6)
    return [by_lower[each] for each in dict.fromkeys([*close, *containing])][:max_names]


def key_name(provider: str) -> str:
    """The name of the secret that holds a provider's key. In capitals it is the environment variable."""
    return f"{provider.replace('-', '_')}_api_key"


KEY_NAMES = {provider: key_name(provider) for provider in PROVIDERS}


def key_variables(provider: str) -> tuple[str, ...]:
    """The environment variables for a provider's key; the first that is set counts."""
    return (key_name(provider).upper(), *([ALSO[provider]] if provider in ALSO else []))


def all_key_variables() -> tuple[str, ...]:
    """The environment variables for the keys of all providers."""
    return tuple(variable for provider in PROVIDERS for variable in key_variables(provider))


def provider_keys(environment: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    """The keys of providers by their names, from the environment or else from the `stored` secrets."""
    found = {}
    for provider, name in KEY_NAMES.items():
        values = [environment.get(variable, "").strip() for variable in key_variables(provider)]
        if value := next(filter(None, values), "") or stored.get(name, "").strip():
            found[name] = value
    return found


def how_to_set(provider: str) -> str:
    """A hint how to set the key."""
    variables = " or ".join(key_variables(provider))
    return (
        f"Set it with `hutch config set-secret {key_name(provider)}`, or in the environment as {variables} "
        "(in that of the server, if one runs)."
    )


def setting_of_address(provider: str) -> str:
    """The setting that holds a provider's address."""
    return f"models.{provider.replace('-', '_')}_base_url"


def openai_headers(environment: Mapping[str, str]) -> dict[str, str]:
    """The headers for the OpenAI organization and project that the environment names."""
    headers = {header: environment.get(variable, "").strip() for header, variable in OPENAI_HEADERS.items()}
    return {
        header: value
        for header, value in headers.items()
        if value and value.isascii() and value.isprintable()
    }
