"""An identity provider on its own port: discovery, authorization with PKCE, tokens, keys.

It speaks as real ones do and checks what they check. `twist` lets it lie in one way at a time.
"""

import base64
import hashlib
import hmac
import json
import secrets
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import unquote, urlencode

import uvicorn
from joserfc import jwt
from joserfc.jwk import ECKey, Key, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.gateway.request_filter_server import serving

CLIENT, SECRET = "hutch-client", "a client's secret: 100%"


@cache
def first_key() -> RSAKey:
    """To make one takes longer than a whole login."""
    return RSAKey.generate_key(2048, {"kid": "first"})


@dataclass
class IdentityProvider:
    """The provider, and its next answers."""

    url: str
    key: RSAKey = field(default_factory=lambda: first_key())
    user: dict[str, Any] = field(
        default_factory=lambda: {"sub": "248289761001", "email": "ada@example.org", "email_verified": True}
    )
    metadata: dict[str, Any] = field(default_factory=dict)  # instead of what it would say of itself
    claims: dict[str, Any] = field(default_factory=dict)  # instead of right ones; None leaves one out
    sign: Callable[["IdentityProvider", dict[str, Any]], str] | None = None
    keys: Callable[["IdentityProvider"], Any] | None = None
    more: dict[str, Callable[[Request], Awaitable[Response]]] = field(default_factory=dict)  # by path
    asks: bool = False  # whether a person must press a button
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    spent: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)

    def rotate(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": f"key {secrets.token_hex(4)}"})

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._discover),
                Route("/authorize", self._authorize, methods=["GET", "POST"]),
                Route("/token", self._token, methods=["POST"]),
                Route("/keys", self._keys),
                Route("/userinfo", self._userinfo),
                Route("/{path}", self._more, methods=["GET", "POST"]),
            ]
        )

    async def _more(self, request: Request) -> Response:
        found = self.more.get(request.url.path)
        return await found(request) if found else Response("no", 404)

    async def _discover(self, request: Request) -> Response:
        self.calls.append("discover")
        result = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "code_challenge_methods_supported": ["S256"],
            **self.metadata,
        }
        return JSONResponse(result)

    async def _authorize(self, request: Request) -> Response:
        self.calls.append("authorize")
        asked = dict(request.query_params)
        right = (
            asked.get("response_type") == "code"
            and asked.get("client_id") == CLIENT
            and asked.get("code_challenge_method") == "S256"
            and "openid" in asked.get("scope", "").split()
            and asked.get("state")
            and asked.get("nonce")
        )
        if not right:
            return JSONResponse({"error": "invalid_request"}, 400)
        if self.asks and request.method == "GET":
            return HTMLResponse("<form method=post><button id=go>Log in as ada</button></form>")
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        back = urlencode({"code": code, "state": asked["state"]})
        return RedirectResponse(f"{asked['redirect_uri']}?{back}", 302)

    async def _token(self, request: Request) -> Response:
        self.calls.append("token")
        form = dict(await request.form())
        kind, _, credentials = request.headers.get("authorization", "").partition(" ")
        if kind == "Basic":
            name, _, secret = base64.b64decode(credentials).decode().partition(":")
            name, secret = unquote(name), unquote(secret)
        else:
            name, secret = str(form.get("client_id")), str(form.get("client_secret"))
        if (name, secret) != (CLIENT, SECRET):
            return JSONResponse({"error": "invalid_client"}, 401)
        code = str(form.get("code"))
        asked = self.codes.get(code)
        challenge = hashlib.sha256(str(form.get("code_verifier")).encode()).digest()
        if (
            asked is None
            or code in self.spent
            or form.get("grant_type") != "authorization_code"
            or form.get("redirect_uri") != asked["redirect_uri"]
            or base64.urlsafe_b64encode(challenge).rstrip(b"=").decode() != asked["code_challenge"]
        ):
            return JSONResponse({"error": "invalid_grant"}, 400)
        self.spent.add(code)
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            **self.user,
            **self.claims,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        token = self.sign(self, claims) if self.sign else signed(self.key, claims)
        return JSONResponse(
            {"id_token": token, "access_token": "opaque", "token_type": "Bearer", "expires_in": 300}
        )

    async def _keys(self, request: Request) -> Response:
        self.calls.append("keys")
        result = self.keys(self) if self.keys else {"keys": [public(self.key)]}
        return result if isinstance(result, Response) else JSONResponse(result)

    async def _userinfo(self, request: Request) -> Response:
        self.calls.append("userinfo")
        if request.headers.get("authorization") != "Bearer opaque":
            return JSONResponse({"error": "invalid_token"}, 401)
        return JSONResponse(self.user)


def public(key: Key) -> dict[str, Any]:
    return {**key.as_dict(private=False), "use": "sig"}


def signed(key: Key, claims: dict[str, Any], alg: str = "RS256", **header: Any) -> str:
    return jwt.encode({"alg": alg, "kid": key.kid, **header}, claims, key, algorithms=[alg])


def unsigned(provider: IdentityProvider, claims: dict[str, Any]) -> str:
    return f"{_part({'alg': 'none', 'kid': provider.key.kid})}.{_part(claims)}."


def by_stranger(provider: IdentityProvider, claims: dict[str, Any]) -> str:
    """A foreign key with the key id of the provider's."""
    return signed(RSAKey.generate_key(2048, {"kid": provider.key.kid}), claims)


def by_embedded(provider: IdentityProvider, claims: dict[str, Any]) -> str:
    """A foreign key that the token itself contains."""
    key = RSAKey.generate_key(2048, {"kid": "embedded"})
    return signed(key, claims, jwk=public(key))


def by_public_key(provider: IdentityProvider, claims: dict[str, Any]) -> str:
    """The public key, which anybody has, used as a shared secret."""
    return _by_hmac(provider.key.as_pem(private=False), provider, claims)


def by_client_secret(provider: IdentityProvider, claims: dict[str, Any]) -> str:
    return _by_hmac(SECRET.encode(), provider, claims)


def _by_hmac(secret: bytes, provider: IdentityProvider, claims: dict[str, Any]) -> str:
    """By hand: a library that knows the trick would not play it."""
    text = f"{_part({'alg': 'HS256', 'kid': provider.key.kid})}.{_part(claims)}"
    signature = hmac.new(secret, text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def changed_after(provider: IdentityProvider, claims: dict[str, Any]) -> str:
    """Signed, and then changed."""
    head, _, signature = signed(provider.key, claims).split(".")
    return f"{head}.{_part({**claims, 'sub': 'somebody else'})}.{signature}"


def by_curve(provider: IdentityProvider, claims: dict[str, Any]) -> str:
    """Another algorithm than the key that it names is for."""
    return signed(ECKey.generate_key("P-256", {"kid": provider.key.kid}), claims, "ES256")


def _part(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@asynccontextmanager
async def identity_provider() -> AsyncIterator[IdentityProvider]:
    listener = socket.create_server(("127.0.0.1", 0))
    provider = IdentityProvider(f"http://127.0.0.1:{listener.getsockname()[1]}")
    config = uvicorn.Config(provider.app(), log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    async with serving(config, listener):
        yield provider
