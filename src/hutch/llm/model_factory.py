"""From a model's name to a model that can be asked; only what is used is loaded."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from hutch.domain.errors import BadRequest, Denied
from hutch.llm.http_get import http_get
from hutch.llm.interface import Model
from hutch.llm.model_name import WITH_KEY, ModelName, how_to_set, key_name, setting_of_address
from hutch.llm.retry import PatientModel, RetryPolicy
from hutch.llm.scripted import ScriptedModel

OLLAMA = "http://127.0.0.1:11434"
BASE_URLS = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com/v1",
    "gemini": "https://generativelanguage.googleapis.com",
    "ollama": OLLAMA,
}
POLL_INTERVAL_S = 0.3  # for an Ollama on this machine


@dataclass(frozen=True, slots=True)
class Access:
    """Keys and addresses, by provider."""

    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    base_urls: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # for a provider alone
    openai_protocol: Literal["responses", "chat"] = "responses"
    patience: RetryPolicy = field(default_factory=RetryPolicy)

    def key(self, provider: str) -> str | None:
        return self.keys.get(key_name(provider))

    def base_url(self, provider: str) -> str | None:
        return self.base_urls.get(provider) or BASE_URLS.get(provider)


@dataclass(frozen=True, slots=True)
class Choice:
    """A model, and why it is this one."""

    name: str
    reason: str


def open_model(name: ModelName, access: Access) -> Model:
    """A model that is asked with patience. The HTTP client is loaded now."""
    if name.provider == "scripted":
        file = Path(name.model)
        file = file.expanduser() if name.model.startswith("~/") else file  # our own home, and nobody else's
        return PatientModel(ScriptedModel.load(file), access.patience)
    base_url = check_access(name, access)
    key = access.key(name.provider) or ""
    return PatientModel(_open(name, key, base_url, access), access.patience)


def check_access(name: ModelName, access: Access) -> str:
    """The address of a model; an error where the key or the address cannot be used. Nobody is asked."""
    key, base_url = access.key(name.provider), access.base_url(name.provider)
    if name.provider in WITH_KEY and not key:
        raise Denied(f"There is no key for {name.provider}. {how_to_set(name.provider)}")
    if key and not (key.isascii() and key.isprintable()):
        raise Denied(
            f"The key for {name.provider} holds letters that no key has. {how_to_set(name.provider)}"
        )
    setting = setting_of_address(name.provider)
    if base_url is None:
        raise BadRequest(f"{name} needs an address. Set it: {setting} = 'http://127.0.0.1:8000/v1'.")
    if not is_address(base_url):
        shown = base_url.rpartition("@")[2]
        raise BadRequest(
            f"{setting} is '{shown}', which is no address. Write one like {BASE_URLS['openai']}, "
            f"without a password."
        )
    return base_url


def check_usable(name: ModelName, access: Access) -> None:
    """The same for any model: a script needs neither key nor address."""
    if name.provider != "scripted":
        check_access(name, access)


def is_address(text: str) -> bool:
    """Whether something can be asked there. A password has no place in it: addresses are shown."""
    try:
        place = urlsplit(text)
        port_is_one = place.port != 0
    except ValueError:
        return False
    is_place = place.scheme in ("http", "https") and bool(place.hostname) and place.username is None
    return is_place and port_is_one and text.isprintable()


def _open(name: ModelName, key: str, base_url: str, access: Access) -> Model:
    from hutch.llm.provider import Account

    if name.provider == "ollama":
        base_url = f"{base_url.rstrip('/').removesuffix('/v1')}/v1"
    account = Account(name.provider, name.model, key, base_url, access.headers.get(name.provider, {}))
    match name.provider:
        case "anthropic":
            from hutch.llm.anthropic import AnthropicModel

            return AnthropicModel(account)
        case "gemini":
            from hutch.llm.gemini import GeminiModel

            return GeminiModel(account)
        case "openai" if access.openai_protocol == "responses":
            from hutch.llm.openai_responses import OpenAIResponsesModel

            return OpenAIResponsesModel(account)
    from hutch.llm.openai_chat import OpenAIChatModel

    return OpenAIChatModel(account)


async def default_model(access: Access, *, scripted: Path, look_s: float = POLL_INTERVAL_S) -> Choice:
    """The model for somebody who names none: the first provider with a key, else Ollama, else scripted."""
    for provider, model in WITH_KEY.items():
        if access.key(provider):
            return Choice(f"{provider}:{model}", f"there is a key for {provider}")
    if found := await _ollama_model(access.base_url("ollama") or OLLAMA, look_s):
        return Choice(f"ollama:{found}", "no key is set, and an Ollama runs on this machine")
    return Choice(
        f"scripted:{scripted}",
        "no key is set and no Ollama runs here, so a script plays the model; "
        + how_to_set("anthropic").replace("Set it", "set a key", 1),
    )


async def _ollama_model(base_url: str, look_s: float) -> str | None:
    """The newest model of an Ollama, if there is one."""
    try:
        return next(iter(await ollama_models(base_url, timeout_s=look_s)), None)
    except (OSError, ValueError):  # nothing there, too slow, or no address
        return None


async def ollama_models(base_url: str, *, timeout_s: float) -> list[str]:
    """The models of an Ollama that can talk, the newest first.

    Raises OSError when nothing answers, ValueError when what answers is not an Ollama.
    """
    status, body = await http_get(base_url, "/api/tags", timeout_s=timeout_s)
    try:
        names = [str(model["name"]) for model in json.loads(body)["models"]] if status == 200 else None
    except (ValueError, KeyError, TypeError, RecursionError):
        names = None
    if names is None:
        raise ValueError(f"It answered {status}, without a list of models.")
    return [name for name in names if "embed" not in name]  # those cannot talk
