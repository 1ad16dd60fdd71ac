"""The model for a run: named by somebody, or the best there is here."""

import asyncio
from collections.abc import Collection, Mapping
from pathlib import Path

from hutch.domain.redaction import Redactor
from hutch.flows.model_list import UsableModels, list_models
from hutch.llm.interface import Model
from hutch.llm.model_factory import Access, Choice, check_usable, default_model, open_model
from hutch.llm.model_name import PROVIDERS, key_name, key_variables, parse_model_name
from hutch.llm.recording import RecordingModel
from hutch.llm.retry import RetryPolicy
from hutch.llm.scripted import OFFLINE
from hutch.settings import LoadedSettings, user_environment
from hutch.store.secrets import read_secrets
from hutch.store.vault_redactor import VaultRedactor

OPENAI_HEADERS = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}


async def choose_model(
    loaded: LoadedSettings, name: str | None, *, record: Path | None = None, hides: Redactor | None = None
) -> tuple[Model, Choice]:
    """Open the model that is named, or else the one that can be had, and say why it is this one.

    What it says goes to the file `record` without the secrets that `hides` knows.

    The HTTP client is loaded in a thread, so that the rest of a run can be made ready meanwhile.
    """
    granted = access(loaded)
    if name is None:
        choice = await default_model(granted, scripted=OFFLINE)
    else:
        choice = Choice(name, "it was asked for")
    model = await asyncio.to_thread(open_model, parse_model_name(choice.name), granted)
    if record is not None:
        model = RecordingModel(model, record, clean=(hides or redactor(loaded)).redact)
    return model, choice


def check_model(loaded: LoadedSettings, name: str) -> None:
    """Refuse a named model, or the one of the settings, whose key or address is missing."""
    if named := name or loaded.settings.model:
        check_usable(parse_model_name(named), access(loaded))


async def list_usable(loaded: LoadedSettings) -> UsableModels:
    """Which models can be used with these settings."""
    granted = await asyncio.to_thread(access, loaded)
    return await list_models(granted, loaded.settings.model)


def access(loaded: LoadedSettings, environment: Mapping[str, str] | None = None) -> Access:
    """Keys, addresses and retries, as the settings, the vault and the environment have them."""
    models = loaded.settings.models
    environment = user_environment() if environment is None else environment
    addresses = {name: getattr(models, f"{name.replace('-', '_')}_base_url", None) for name in PROVIDERS}
    return Access(
        keys=keys(loaded, environment),
        base_urls={name: address for name, address in addresses.items() if address},
        headers={"openai": _set_headers(environment)},
        openai_protocol=models.openai_protocol,
        retry_policy=RetryPolicy(
            attempts=models.attempts, max_wait_s=models.max_retry_wait_s, idle_timeout_s=models.idle_timeout_s
        ),
    )


def _set_headers(environment: Mapping[str, str]) -> dict[str, str]:
    """The organization and the project of OpenAI's that the environment names."""
    told = {header: environment.get(variable, "").strip() for header, variable in OPENAI_HEADERS.items()}
    return {
        header: value for header, value in told.items() if value and value.isascii() and value.isprintable()
    }


def keys(loaded: LoadedSettings, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The keys of providers: from the environment, or else from the vault."""
    environment = user_environment() if environment is None else environment
    kept, found = secrets_of(loaded, {key_name(provider) for provider in PROVIDERS}), {}
    for provider in PROVIDERS:
        name = key_name(provider)
        told = [environment.get(variable, "").strip() for variable in key_variables(provider)]
        value = next(filter(None, told), "") or kept.get(name, "").strip()
        if value:
            found[name] = value
    return found


def redactor(loaded: LoadedSettings, environment: Mapping[str, str] | None = None) -> Redactor:
    """Knows every secret of the installation, also those to come, and the environment's keys of providers."""
    environment = user_environment() if environment is None else environment
    told = [environment.get(variable, "") for name in PROVIDERS for variable in key_variables(name)]
    return VaultRedactor(loaded.paths.vault, loaded.paths.vault_keys, told)


def secrets_of(loaded: LoadedSettings, wanted: Collection[str] | None = None) -> dict[str, str]:
    """The secrets of the vault: all, or those of these names that it has."""
    return read_secrets(loaded.paths.vault, loaded.paths.vault_keys, wanted)
