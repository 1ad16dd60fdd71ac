"""Opens a model by its name; only the provider in use is imported."""

import json
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from hutch.domain.errors import BadRequest, Denied, Unavailable
from hutch.llm.http_get import http_get
from hutch.llm.interface import Model
from hutch.llm.model_and_key_names import WITH_KEY, ModelName, how_to_set, key_name, setting_of_address
from hutch.llm.provider_account import Account
from hutch.llm.rejected_key_source import KeySource
from hutch.llm.retry import RetryingModel, RetryPolicy
from hutch.llm.scripted_model import DEMO, ScriptedModel
from hutch.system.lazy_dataclass import dataclass

OLLAMA = "http://127.0.0.1:11434"
BASE_URLS = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com/v1",
    "gemini": "https://generativelanguage.googleapis.com",
    "ollama": OLLAMA,
}
OLLAMA_TIMEOUT_S = 0.3  # on this machine


@dataclass(frozen=True, slots=True)
class Access:
    """Keys and addresses, by provider."""

    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    own: frozenset[str] = frozenset()  # the names of those keys that belong to a single user
    key_problems: Mapping[str, str] = field(default_factory=dict)  # why keys cannot be read, by their names
    key_sources: Mapping[str, KeySource] = field(default_factory=dict)  # by the names of the keys
    base_urls: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # sent to this provider only
    openai_protocol: Literal["responses", "chat"] = "responses"
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)

    def key(self, provider: str) -> str | None:
        """The key of a provider, if it has one. Raises an error if the source of the key fails."""
        name = key_name(provider)
        if name in self.key_problems and name not in self.keys:
            raise Unavailable(self.key_problems[name])
        return self.keys.get(name)

    def has_own_key(self, provider: str) -> bool:
        return key_name(provider) in self.own

    def base_url(self, provider: str) -> str | None:
        return self.base_urls.get(provider) or BASE_URLS.get(provider)


@dataclass(frozen=True, slots=True)
class Choice:
    """A model, and why it was chosen."""

    name: str
    reason: str


def open_model(name: ModelName, access: Access) -> Model:
    """Open a model that retries. This imports the HTTP client."""
    if name.provider == "scripted":
        return RetryingModel(_load_script(name), access.retry_policy)
    return RetryingModel(_open(name, access), access.retry_policy)


def check_access(name: ModelName, access: Access) -> str:
    """The address of a model; an error when the key or the address is unusable. No request is sent."""
    key, base_url = access.key(name.provider), access.base_url(name.provider)
    if name.provider in WITH_KEY and not key:
        raise Denied(f"There is no key for {name.provider}. {how_to_set(name.provider)}")
    if key and not (key.isascii() and key.isprintable()):
        raise Denied(f"The key for {name.provider} has invalid characters. {how_to_set(name.provider)}")
    setting = setting_of_address(name.provider)
    if base_url is None:
        raise BadRequest(f"{name} needs an address. Set it: {setting} = 'http://127.0.0.1:8000/v1'.")
    if not is_address(base_url):
        shown = base_url.rpartition("@")[2]
        raise BadRequest(
            f"{setting} is '{shown}', which is not an address. Write one like {BASE_URLS['openai']}, "
            f"without a password."
        )
    return base_url


def check_usable(name: ModelName, access: Access) -> None:
    """The same for any model: a scripted one needs a valid file, and neither key nor address."""
    if name.provider == "scripted":
        _load_script(name)
    else:
        check_access(name, access)


def _load_script(name: ModelName) -> ScriptedModel:
    if name.model == "demo":
        return ScriptedModel.load(DEMO)
    file = Path(name.model)
    return ScriptedModel.load(file.expanduser() if name.model.startswith("~/") else file)  # our home only


def is_address(text: str) -> bool:
    """True if a text is an HTTP address. A password is not allowed, since addresses are displayed."""
    try:
        url = urlsplit(text)
        has_valid_port = url.port != 0
    except ValueError:
        return False
    is_http = url.scheme in ("http", "https") and bool(url.hostname) and url.username is None
    return is_http and has_valid_port and text.isprintable()


def find_account(name: ModelName, access: Access) -> Account:
    """The account of a model; an error when the key or the address is unusable."""
    base_url = check_access(name, access)
    if name.provider == "ollama":
        base_url = f"{base_url.rstrip('/').removesuffix('/v1')}/v1"
    return Account(
        name.provider,
        name.model,
        access.key(name.provider) or "",
        base_url,
        headers=access.headers.get(name.provider, {}),
        key_source=access.key_sources.get(key_name(name.provider)),
    )


def _open(name: ModelName, access: Access) -> Model:
    account = find_account(name, access)
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


async def default_model(
    access: Access, *, scripted: Path, ollama_timeout_s: float = OLLAMA_TIMEOUT_S
) -> Choice:
    """The model when the user names none: the first provider with a key, else Ollama, else scripted."""
    for provider, model in WITH_KEY.items():
        if access.key(provider):
            return Choice(f"{provider}:{model}", f"there is a key for {provider}")
    if found := await _ollama_model(access.base_url("ollama") or OLLAMA, ollama_timeout_s):
        return Choice(f"ollama:{found}", "no key is set, and Ollama runs on this machine")
    return Choice(
        f"scripted:{scripted}",
        "no key is set and Ollama does not run here, so a script replaces the model; "
        + how_to_set("anthropic").replace("Set it", "set a key", 1),
    )


async def _ollama_model(base_url: str, timeout_s: float) -> str | None:
    """The newest model of an Ollama server, if there is one."""
    try:
        return next(iter(await ollama_models(base_url, timeout_s=timeout_s)), None)
    except (OSError, ValueError):  # no answer, too slow, or an invalid address
        return None


async def ollama_models(base_url: str, *, timeout_s: float) -> list[str]:
    """The chat models of an Ollama server, newest first.

    Raises OSError when nothing answers, ValueError when the answer is not Ollama's.
    """
    status, body = await http_get(base_url, "/api/tags", timeout_s=timeout_s)
    try:
        names = [str(model["name"]) for model in json.loads(body)["models"]] if status == 200 else None
    except (ValueError, KeyError, TypeError, RecursionError):
        names = None
    if names is None:
        raise ValueError(f"It answered {status}, without a list of models.")
    return [name for name in names if "embed" not in name]  # embedding models cannot chat
