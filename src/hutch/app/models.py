"""The models of an installation, from its settings and secrets."""

from collections.abc import Mapping
from functools import partial

from hutch.app.vault_secrets_and_redactor import secrets
from hutch.flows.model_selection import Models
from hutch.llm.embedding_model import Embedder
from hutch.llm.model_and_key_names import KEY_NAMES, openai_headers, parse_model_name, provider_keys
from hutch.llm.model_factory import Access
from hutch.llm.rejected_key_source import find_key_sources
from hutch.llm.retry import RetryPolicy
from hutch.settings import LoadedSettings, user_environment
from hutch.store.user_model_keys import UserModelKeys


def models_of(loaded: LoadedSettings) -> Models:
    return Models(
        read_access=lambda user_id: access(loaded, user_id=user_id),
        default_model=loaded.settings.model,
        default_persona=loaded.settings.persona,
        personas=loaded.paths.personas,
    )


def access(
    loaded: LoadedSettings, environment: Mapping[str, str] | None = None, *, user_id: str = ""
) -> Access:
    """Keys, addresses and retry policy from the settings, the vault and the environment.

    The own keys of a user come first.
    """
    models = loaded.settings.models
    environment = user_environment() if environment is None else environment
    own = user_keys(loaded).read(user_id) if user_id else {}
    stored = secrets(loaded, environment)
    found, problems = stored.read_available(KEY_NAMES.values())
    return Access(
        keys={**provider_keys(environment, found), **own},
        key_problems=problems,
        key_sources=find_key_sources(
            environment, found, named_in_settings=stored.elsewhere.sources, own=own.keys()
        ),
        own=frozenset(own),
        base_urls=models.base_urls(),
        headers={"openai": openai_headers(environment)},
        openai_protocol=models.openai_protocol,
        retry_policy=RetryPolicy(
            attempts=models.attempts, max_wait_s=models.max_retry_wait_s, idle_timeout_s=models.idle_timeout_s
        ),
    )


def embedder(loaded: LoadedSettings) -> Embedder | None:
    """The model for search by meaning, if the settings name one."""
    search = loaded.settings.search
    if search.embeddings is None:
        return None
    return Embedder(parse_model_name(search.embeddings), partial(access, loaded), search.dimensions)


def user_keys(loaded: LoadedSettings) -> UserModelKeys:
    """The model keys of single users."""
    return UserModelKeys(loaded.paths.vault, loaded.paths.vault_keys, KEY_NAMES)
