"""Login by an identity provider, as the rest of the gateway sees it.

Its libraries take long to load, so they are imported only if a provider is set.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hutch.settings import LoadedSettings
from hutch.store.vault import Vault

if TYPE_CHECKING:
    from hutch.gateway.auth.oidc import OidcLogin

LIFE_S = 600  # of a login, from the redirect to the callback
SECRET = "oidc_client_secret"  # in the vault


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom the provider has recognised."""

    issuer: str
    subject: str
    email: str


def open_provider_login(loaded: LoadedSettings) -> "OidcLogin | None":
    """The login that the settings describe; None when they name no provider. To be closed."""
    if not loaded.settings.oidc.issuer:
        return None
    from hutch.gateway.auth.oidc import OidcLogin

    secret = None
    if loaded.paths.vault.exists():
        secret = Vault(loaded.paths.vault, loaded.paths.vault_keys).get(SECRET)
    return OidcLogin(loaded.settings.oidc, secret)
