"""Login by an identity provider, as the rest of the gateway sees it.

Its libraries take long to load, so they are imported only if a provider is set.
"""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from hutch.settings import LoadedSettings
from hutch.system.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from hutch.gateway.auth.oidc import OidcLogin

LIFE_S = 600  # of a login, from the redirect to the callback
SECRET = "oidc_client_secret"


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom the provider has recognised."""

    issuer: str
    subject: str
    email: str


def open_provider_login(
    loaded: LoadedSettings, read_secrets: Callable[[Collection[str]], Mapping[str, str]]
) -> "OidcLogin | None":
    """The login that the settings describe; None when they name no provider. To be closed."""
    if not loaded.settings.oidc.issuer:
        return None
    from hutch.gateway.auth.oidc import OidcLogin

    return OidcLogin(loaded.settings.oidc, read_secrets({SECRET}).get(SECRET))
