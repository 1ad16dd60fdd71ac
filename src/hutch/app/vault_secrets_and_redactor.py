"""The secrets of an installation, and a redactor for them, from the settings."""

from collections.abc import Collection, Mapping

from hutch.domain.hutch_secret_names import TOKEN_VARIABLES
from hutch.domain.redaction import Redactor
from hutch.llm.model_and_key_names import all_key_variables
from hutch.settings import LoadedSettings, user_environment
from hutch.settings.secret_source_settings import named_sources
from hutch.store.secret_lookup import InstallationSecrets
from hutch.store.secret_sources import SecretSources
from hutch.store.vault_redactor import VaultRedactor


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
