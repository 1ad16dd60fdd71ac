"""The models of an installation, and its secrets, from the settings."""

from collections.abc import Collection, Mapping

from hutch.domain.known_secret_names import TOKEN_VARIABLES
from hutch.domain.redaction import Redactor
from hutch.flows.model_selection import Models
from hutch.llm.key_source import find_key_sources
from hutch.llm.model_factory import Access
from hutch.llm.model_name import KEY_NAMES, all_key_variables, openai_headers, provider_keys
from hutch.llm.retry import RetryPolicy
from hutch.settings import LoadedSettings, user_environment
from hutch.settings.secret_sources import named_sources
from hutch.store.secret_lookup import InstallationSecrets
from hutch.store.secret_sources import SecretSources
from hutch.store.user_model_keys import UserModelKeys
from hutch.store.vault_redactor import VaultRedactor


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


def user_keys(loaded: LoadedSettings) -> UserModelKeys:
    """The model keys of single users."""
    return UserModelKeys(loaded.paths.vault, loaded.paths.vault_keys, KEY_NAMES)


def redactor(loaded: LoadedSettings, environment: Mapping[str, str] | None = None) -> Redactor:
    """A redactor for all secrets in the vault and from other sources, including later ones, and for keys in
    the environment. Blocks while commands print secrets."""
    environment = user_environment() if environment is None else environment
    values = [environment.get(name, "") for name in (*all_key_variables(), *TOKEN_VARIABLES)]
    secrets(loaded, environment).elsewhere.read_available()  # the redactor knows the values that were read
    return VaultRedactor(loaded.paths.vault, loaded.paths.vault_keys, values)


def secrets_of(loaded: LoadedSettings, names: Collection[str]) -> dict[str, str]:
    """The secrets with these names. A source of the settings that fails is an error."""
    return secrets(loaded).read(names)


def secrets(loaded: LoadedSettings, environment: Mapping[str, str] | None = None) -> InstallationSecrets:
    """All secrets of the installation."""
    environment = user_environment() if environment is None else environment
    sources = SecretSources(named_sources(loaded.settings.secrets), environment)
    return InstallationSecrets(loaded.paths.vault, loaded.paths.vault_keys, sources)
