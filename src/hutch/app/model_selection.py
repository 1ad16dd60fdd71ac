"""The model for a run: the named one, or the best available."""

import asyncio
from collections.abc import Collection, Mapping
from pathlib import Path

from hutch.domain.errors import NotFound
from hutch.domain.known_secret_names import TOKEN_VARIABLES
from hutch.domain.redaction import Redactor
from hutch.flows.model_list import UsableModels, list_models
from hutch.flows.personas import find_persona
from hutch.llm.interface import Model
from hutch.llm.model_factory import Access, Choice, check_usable, default_model, open_model
from hutch.llm.model_name import KEY_NAMES, all_key_variables, openai_headers, parse_model_name, provider_keys
from hutch.llm.recording_model import RecordingModel
from hutch.llm.retry import RetryPolicy
from hutch.llm.scripted import OFFLINE
from hutch.settings import LoadedSettings, user_environment
from hutch.store.optional_vault import read_secrets
from hutch.store.vault_redactor import VaultRedactor


async def choose_model(
    loaded: LoadedSettings, name: str | None, *, record: Path | None = None, hides: Redactor | None = None
) -> tuple[Model, Choice]:
    """Open the named model or the best available one, and say why it was chosen.

    Replies are recorded in the file `record`, with the secrets of `hides` redacted.

    The HTTP client is loaded in a thread, so that the rest of the run is prepared meanwhile.
    """
    granted = access(loaded)
    if name is None:
        choice = await default_model(granted, scripted=OFFLINE)
    else:
        choice = Choice(name, "requested explicitly")
    model = await asyncio.to_thread(open_model, parse_model_name(choice.name), granted)
    if record is not None:
        model = RecordingModel(model, record, clean=(hides or redactor(loaded)).redact)
    return model, choice


def check_model(loaded: LoadedSettings, name: str, persona: str = "") -> None:
    """Refuse the model of a request if its key or address is missing: the named one, the persona's, or that
    of the settings."""
    if named := name or _model_of_persona(loaded, persona) or loaded.settings.model:
        check_usable(parse_model_name(named), access(loaded))


def _model_of_persona(loaded: LoadedSettings, name: str) -> str | None:
    try:
        return find_persona(name or loaded.settings.persona, loaded.paths.personas).model
    except NotFound:
        return None  # the repository may have it, but it cannot choose a model


async def list_usable(loaded: LoadedSettings) -> UsableModels:
    """The models that can be used with these settings."""
    granted = await asyncio.to_thread(access, loaded)
    return await list_models(granted, loaded.settings.model)


def access(loaded: LoadedSettings, environment: Mapping[str, str] | None = None) -> Access:
    """Keys, addresses and retry policy from the settings, the vault and the environment."""
    models = loaded.settings.models
    environment = user_environment() if environment is None else environment
    return Access(
        keys=keys(loaded, environment),
        base_urls=models.base_urls(),
        headers={"openai": openai_headers(environment)},
        openai_protocol=models.openai_protocol,
        retry_policy=RetryPolicy(
            attempts=models.attempts, max_wait_s=models.max_retry_wait_s, idle_timeout_s=models.idle_timeout_s
        ),
    )


def keys(loaded: LoadedSettings, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The keys of providers, from the environment or else the vault."""
    environment = user_environment() if environment is None else environment
    return provider_keys(environment, secrets_of(loaded, KEY_NAMES.values()))


def redactor(loaded: LoadedSettings, environment: Mapping[str, str] | None = None) -> Redactor:
    """A redactor for all secrets in the vault, including later ones, and for keys in the environment."""
    environment = user_environment() if environment is None else environment
    values = [environment.get(name, "") for name in (*all_key_variables(), *TOKEN_VARIABLES)]
    return VaultRedactor(loaded.paths.vault, loaded.paths.vault_keys, values)


def secrets_of(loaded: LoadedSettings, names: Collection[str] | None = None) -> dict[str, str]:
    """The secrets in the vault: all, or those with these names."""
    return read_secrets(loaded.paths.vault, loaded.paths.vault_keys, names)
