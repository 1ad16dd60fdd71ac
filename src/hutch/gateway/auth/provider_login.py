"""Login by an identity provider, as the rest of the gateway sees it.

The libraries for it take a while to load; only who has named a provider waits for them.
"""

from dataclasses import dataclass
from typing import Protocol

from hutch.domain.user import Role
from hutch.settings import Loaded
from hutch.store.vault import Vault

LIFE_S = 600  # from being sent off to coming back
SECRET = "oidc_client_secret"  # in the vault


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom the provider has recognised."""

    issuer: str
    subject: str
    email: str


class ProviderLogin(Protocol):
    """Sends browsers to the provider, and receives them back."""

    @property
    def role(self) -> Role: ...

    async def begin(self, redirect_uri: str, next_: str) -> tuple[str, str]: ...

    async def finish(
        self, sealed: str | None, *, state: str, code: str, error: str, iss: str | None
    ) -> tuple[Identity, str]: ...

    async def close(self) -> None: ...


def open_provider_login(loaded: Loaded) -> ProviderLogin | None:
    """The login that the settings describe; None when they name no provider. To be closed."""
    if not loaded.settings.oidc.issuer:
        return None
    from hutch.gateway.auth.oidc import OidcLogin

    secret = None
    if loaded.paths.vault.exists():
        secret = Vault(loaded.paths.vault, loaded.paths.vault_keys).get(SECRET)
    return OidcLogin(loaded.settings.oidc, secret)
