"""Lists the usable models and the default model. Keys are never shown."""

from dataclasses import dataclass
from typing import NamedTuple

from hutch.llm.model_factory import Access, Choice, default_model
from hutch.llm.model_name import PROVIDERS, WITH_KEY, how_to_set, setting_of_address
from hutch.llm.scripted import OFFLINE


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
        choice = await default_model(access, scripted=OFFLINE)
    return UsableModels(choice, [_state(name, access, choice) for name in PROVIDERS])


def _state(name: str, access: Access, choice: Choice) -> ProviderState:
    if name in WITH_KEY:
        known = f"{name}:{WITH_KEY[name]}"
        if access.key(name):
            return ProviderState(name, True, "there is a key", known)
        return ProviderState(name, False, f"there is no key. {how_to_set(name)}", known)
    if name == "scripted":
        return ProviderState(name, True, "replies come from a script on this machine", None)
    if name == "ollama":
        found = choice.name if choice.name.startswith("ollama:") else None
        return ProviderState(name, True, f"asked at {access.base_url(name)}", found)
    if access.base_url(name):
        return ProviderState(name, True, f"asked at {access.base_url(name)}", None)
    return ProviderState(name, False, f"it needs an address: {setting_of_address(name)}", None)
