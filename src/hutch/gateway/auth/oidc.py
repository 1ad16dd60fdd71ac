"""Login by an identity provider: OpenID Connect, the authorization code flow with PKCE.

Everything that comes back is checked. The state must be the one in this browser's cookie.
The provider must accept the code. One of the provider's published keys must have signed the
token, and its issuer, audience, time and nonce must be right. The state of a login is in
an encrypted cookie, so unauthenticated callers cannot fill the server's memory.
"""

import base64
import hashlib
import json
import re
import secrets
import string
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict
from typing import Any
from urllib.parse import urlencode

from cryptography.fernet import Fernet, InvalidToken
from joserfc import jwt
from joserfc.errors import JoseError

from hutch.domain.errors import BadRequest, Denied, Unauthenticated
from hutch.domain.random_credentials_and_hashes import is_equal
from hutch.domain.user import Role, name_key
from hutch.gateway.auth.oidc_provider import Provider
from hutch.gateway.auth.optional_oidc_import import LIFE_S, Identity
from hutch.settings.server_sections import Oidc
from hutch.system.lazy_dataclass import dataclass

LEEWAY_S = 60  # tolerated difference between two clocks
MAX_SPENT = 10_000
# No shared-secret algorithms: the provider's public keys would then be valid signing keys.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_PATH = re.compile(r"/(?![/\\])[!-\[\]-~]{0,500}")
_EMAIL = re.compile(r"[^@\s]{1,200}@[^@\s]{1,253}")
_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


@dataclass(frozen=True, slots=True)
class Flow:
    """A login in progress: the values that the browser must return."""

    state: str
    nonce: str
    verifier: str
    redirect_uri: str
    next: str
    began_s: float  # monotonic


class OidcLogin:
    """Sends browsers to the provider, and receives them back."""

    def __init__(
        self, settings: Oidc, secret: str | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if not settings.issuer or not settings.client_id:
            raise BadRequest("Login by a provider needs both oidc.issuer and oidc.client_id.")
        self._settings = settings
        self._issuer, self._client_id = settings.issuer, settings.client_id
        self.provider = Provider(self._issuer, self._client_id, secret)
        self._clock = clock
        self._seal = Fernet(Fernet.generate_key())
        self._spent: OrderedDict[str, float] = OrderedDict()

    @property
    def role(self) -> Role:
        """The role of a user at their first login."""
        return self._settings.role

    async def close(self) -> None:
        await self.provider.close()

    async def begin(self, redirect_uri: str, next_: str) -> tuple[str, str]:
        """The URL to redirect to, and the cookie to set until the browser returns."""
        if not _PATH.fullmatch(next_):
            raise BadRequest("'next' is a path on this server, such as /sessions.")
        metadata = await self.provider.metadata()
        flow = Flow(_random(), _random(), _random(), redirect_uri, next_, self._clock())
        challenge = hashlib.sha256(flow.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": redirect_uri,
            "scope": "openid email",
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": base64.urlsafe_b64encode(challenge).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        joint = "&" if "?" in metadata.authorization_endpoint else "?"
        url = f"{metadata.authorization_endpoint}{joint}{urlencode(query)}"
        return url, self._seal.encrypt(json.dumps(asdict(flow)).encode()).decode()

    async def finish(
        self, sealed: str | None, *, state: str, code: str, error: str, iss: str | None
    ) -> tuple[Identity, str]:
        """The identity that the provider confirms, and the path to continue at."""
        flow = self._unseal(sealed)
        if not is_equal(state, flow.state):
            raise Denied("This login was not started in this browser. Start again.")
        self._spend(state)
        metadata = await self.provider.metadata()
        if (iss is not None or metadata.says_issuer) and iss != self._issuer:
            raise Denied("This response is from another provider than the one that was asked.")
        if error:
            raise Unauthenticated(f"The provider has refused: {error[:100]!r}.")
        if not code:
            raise Denied("The provider sent no code.")
        tokens = await self.provider.exchange(code, flow.redirect_uri, flow.verifier)
        claims = await self._claims(tokens.id_token, flow.nonce)
        if (
            "email" not in claims
        ):  # then the token's email_verified means nothing: take both from the user info
            claims = {**claims, **await self._userinfo_claims(tokens.access_token, claims["sub"])}
        return self._identity(claims), flow.next

    def _unseal(self, sealed: str | None) -> Flow:
        try:
            flow = Flow(**json.loads(self._seal.decrypt((sealed or "").encode())))
        except (InvalidToken, ValueError):
            raise Denied(
                "This login was not started in this browser, or too long ago. Start again."
            ) from None
        # Monotonic, like the list of used states: setting the wall clock back must not revive a login.
        if self._clock() - flow.began_s > LIFE_S:
            raise Denied("This login was started too long ago. Start again.")
        return flow

    def _spend(self, state: str) -> None:
        """Each state is accepted once."""
        now = self._clock()
        while self._spent and (
            len(self._spent) >= MAX_SPENT or next(iter(self._spent.values())) < now - LIFE_S
        ):
            self._spent.popitem(last=False)
        if state in self._spent:
            raise Denied("This login was finished already. Start again.")
        self._spent[state] = now

    async def _claims(self, id_token: str, nonce: str) -> dict[str, Any]:
        """The claims of the ID token, after all checks that the specification requires."""
        registry = jwt.JWTClaimsRegistry(
            leeway=LEEWAY_S,
            iss={"essential": True, "value": self._issuer},
            aud={"essential": True, "value": self._client_id},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            keys = await self.provider.keys(_kid(id_token))
            token = jwt.decode(id_token, keys, algorithms=list(ALGORITHMS))
            registry.validate(token.claims)
        except (JoseError, ValueError, TypeError, RecursionError) as error:
            raise Denied(f"The provider's token is not valid: {str(error)[:200]}.") from None
        claims = token.claims
        audience, party = claims["aud"], claims.get("azp")
        if isinstance(audience, list) and len(audience) > 1 and party is None:
            raise Denied("The provider's token is not valid: it has several audiences and no azp.")
        if party is not None and party != self._client_id:
            raise Denied("The provider's token is not valid: it was issued to another client.")
        if not 0 < len(claims["sub"]) <= 255 or not _is_text(claims["sub"]):
            raise Denied("The provider's token is not valid: its subject is empty or malformed.")
        return claims

    async def _userinfo_claims(self, access_token: str, subject: str) -> dict[str, Any]:
        """Claims that the token omits; refused if they are about another user."""
        claims_found = await self.provider.userinfo(access_token)
        if claims_found.get("sub") != subject:
            raise Denied("The provider's token and user info are about different users.")
        return {name: claims_found.get(name) for name in ("email", "email_verified")}

    def _identity(self, claims: dict[str, Any]) -> Identity:
        email = claims.get("email")
        if not isinstance(email, str) or not _EMAIL.fullmatch(email) or not _is_text(email):
            raise Denied("The provider sent no e-mail address.")
        if claims.get("email_verified") is not True:
            raise Denied(f"The provider has not verified the address {email[:100]!r}.")
        # Users are looked up by `name_key(email)`, which maps look-alike characters to one: such an address
        # could match another user. Not str.lower(), which turns the Kelvin sign into an ASCII letter.
        if name_key(email) != email.translate(_ASCII_LOWER):
            raise Denied(
                f"The address {email[:100]!r} can be mistaken for another one. Use ASCII characters."
            )
        if not self._is_allowed(email):
            raise Denied(
                f"{email[:100]!r} may not log in here. "
                "An operator of this server can add it to oidc.allowed_emails."
            )
        return Identity(self._issuer, claims["sub"], email)

    def _is_allowed(self, email: str) -> bool:
        """True if an address is on the list; an empty list allows no address."""
        key = name_key(email)
        domain = key.rpartition("@")[2]
        return key in {name_key(each) for each in self._settings.allowed_emails} or any(
            domain == each or (each.startswith("*.") and domain.endswith(each[1:]))
            for each in self._settings.allowed_domains
        )


def _random() -> str:
    return secrets.token_urlsafe(32)


def _is_text(value: str) -> bool:
    """False for half of a surrogate pair and for NUL, which JSON can carry and a database cannot."""
    return not any(character == "\0" or "\ud800" <= character <= "\udfff" for character in value)


def _kid(token: str) -> str | None:
    """The key id in a token's header, the only part that is read before the signature is checked."""
    head = token.partition(".")[0]
    try:
        claims_found = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except ValueError:
        raise ValueError("it is not a token") from None
    kid = claims_found.get("kid") if isinstance(claims_found, dict) else None
    return kid if isinstance(kid, str) else None
