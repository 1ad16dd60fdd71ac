"""Lists the usable models and the default model. Keys are never shown."""

import asyncio
from typing import NamedTuple

from hutch.domain.errors import Unavailable
from hutch.llm.http_get import http_get
from hutch.llm.model_and_key_names import PROVIDERS, WITH_KEY, how_to_set, setting_of_address
from hutch.llm.model_factory import Access, Choice, default_model, is_address, ollama_models
from hutch.llm.scripted_model import OFFLINE
from hutch.system.lazy_dataclass import dataclass

TIMEOUT_S = 2.0  # for a server to answer


@dataclass(frozen=True, slots=True)
class ProviderState:
    """A provider and whether it can be used."""

    name: str
    usable: bool
    reason: str
    default_model: str | None


class UsableModels(NamedTuple):
    """The default model and all providers."""

    choice: Choice
    providers: list[ProviderState]


async def list_models(access: Access, named: str | None) -> UsableModels:
    """List the models; `named` is the model of the settings, if they have one."""
    if named is not None:
        choice = Choice(named, "the setting `model` says so")
    else:
        try:
            choice = await default_model(access, scripted=OFFLINE)
        except Unavailable as error:  # the source of a key fails
            choice = Choice("", str(error))
    return UsableModels(choice, list(await asyncio.gather(*(_state(name, access) for name in PROVIDERS))))


async def _state(name: str, access: Access) -> ProviderState:
    if name in WITH_KEY:
        known = f"{name}:{WITH_KEY[name]}"
        try:
            has_key = bool(access.key(name))
        except Unavailable as error:
            return ProviderState(name, False, str(error), known)
        if has_key:
            whose = "you have a key of your own" if access.has_own_key(name) else "there is a key"
            return ProviderState(name, True, whose, known)
        return ProviderState(name, False, f"there is no key. {how_to_set(name)}", known)
    if name == "scripted":
        return ProviderState(name, True, "replies come from a script on this machine", None)
    base_url = access.base_url(name)
    if not base_url:
        return ProviderState(name, False, f"it needs an address: {setting_of_address(name)}", None)
    if not is_address(base_url):
        return ProviderState(name, False, f"{setting_of_address(name)} is not an address", None)
    return await (_ollama_state if name == "ollama" else _compatible_state)(name, base_url)


async def _ollama_state(name: str, base_url: str) -> ProviderState:
    try:
        models = await ollama_models(base_url, timeout_s=TIMEOUT_S)
    except (OSError, ValueError):
        return ProviderState(name, False, f"no Ollama answers at {base_url}. Start it: ollama serve", None)
    if not models:
        fix = "Download one: ollama pull NAME"
        return ProviderState(name, False, f"the Ollama at {base_url} has no model. {fix}", None)
    return ProviderState(name, True, f"asked at {base_url}", f"{name}:{models[0]}")


async def _compatible_state(name: str, base_url: str) -> ProviderState:
    try:
        await http_get(base_url, "/", timeout_s=TIMEOUT_S)  # any answer shows that a server listens
    except (OSError, ValueError):
        fix = f"Start it, or change {setting_of_address(name)}"
        return ProviderState(name, False, f"no server answers at {base_url}. {fix}", None)
    return ProviderState(name, True, f"asked at {base_url}", None)
