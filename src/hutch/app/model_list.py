"""Which models can be used here, and which one is when nobody names one. Keys are not told."""

import asyncio
from dataclasses import dataclass

from hutch.app.models import OFFLINE, access
from hutch.llm.names import PROVIDERS, WITH_KEY, how_to_set, setting_of_address
from hutch.llm.open import Access, Choice, default_model
from hutch.settings import Loaded


@dataclass(frozen=True, slots=True)
class ProviderState:
    """A provider, and whether it can be used."""

    name: str
    usable: bool
    reason: str
    default_model: str | None


async def model_states(loaded: Loaded) -> tuple[Choice, list[ProviderState]]:
    granted = await asyncio.to_thread(access, loaded)
    named = loaded.settings.model
    if named is not None:
        choice = Choice(named, "the setting `model` says so")
    else:
        choice = await default_model(granted, scripted=OFFLINE)
    return choice, [_state(name, granted, choice) for name in PROVIDERS]


def _state(name: str, granted: Access, choice: Choice) -> ProviderState:
    if name in WITH_KEY:
        known = f"{name}:{WITH_KEY[name]}"
        if granted.key(name):
            return ProviderState(name, True, "there is a key", known)
        return ProviderState(name, False, f"there is no key. {how_to_set(name)}", known)
    if name == "scripted":
        return ProviderState(name, True, "a script of this machine plays the model", None)
    if name == "ollama":
        found = choice.name if choice.name.startswith("ollama:") else None
        return ProviderState(name, True, f"asked at {granted.base_url(name)}", found)
    if granted.base_url(name):
        return ProviderState(name, True, f"asked at {granted.base_url(name)}", None)
    return ProviderState(name, False, f"it needs an address: {setting_of_address(name)}", None)
