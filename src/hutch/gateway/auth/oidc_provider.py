"""The provider's side of a login, over HTTP: what it says of itself, its keys, and codes for tokens.

The provider is trusted to say who somebody is, and for nothing else: what it sends is small,
comes in time, and from where it is expected; no redirect is followed.
"""

import asyncio
import ipaddress
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

import httpx2
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from hutch.domain.errors import Denied, Unavailable

MAX_BYTES = 512 * 1024
TIMEOUT_S = 10.0
METADATA_S = 3600.0
KEYS_S = 3600.0
NEW_KEYS_S = 10.0  # between two looks for a key that is not there
KINDS = ("RSA", "EC", "OKP")  # never a shared secret: anybody who can read it could sign


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a provider says of itself."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    says_issuer: bool  # in its answers, too
    basic: bool  # whether a secret goes into the header, or into the form


@dataclass(frozen=True, slots=True)
class Tokens:
    id_token: str
    access_token: str


class Provider:
    """One provider, asked as little as possible."""

    def __init__(self, issuer: str, client_id: str, secret: str | None) -> None:
        self._issuer = issuer
        self._client_id = client_id
        self._secret = secret
        self._http = httpx2.AsyncClient(timeout=TIMEOUT_S)
        self.patience_s = TIMEOUT_S
        self.new_keys_s = NEW_KEYS_S
        self._lock = asyncio.Lock()
        self._metadata: Metadata | None = None
        self._metadata_until = 0.0
        self._keys: KeySet | None = None
        self._keys_at = float("-inf")

    async def close(self) -> None:
        await self._http.aclose()

    async def metadata(self) -> Metadata:
        async with self._in_time(self._issuer), self._lock:
            if self._metadata is None or time.monotonic() > self._metadata_until:
                self._metadata = await self._discover()
                self._metadata_until = time.monotonic() + METADATA_S
            return self._metadata

    async def keys(self, kid: str | None) -> KeySet:
        """The provider's keys; asked for anew when a token names one that is not among them."""
        metadata = await self.metadata()
        async with self._in_time(metadata.jwks_uri), self._lock:
            age_s = time.monotonic() - self._keys_at
            known = self._keys is not None and (kid is None or any(key.kid == kid for key in self._keys))
            if self._keys is None or age_s > KEYS_S or (not known and age_s > self.new_keys_s):
                self._keys = _key_set(await self._get(metadata.jwks_uri))
                self._keys_at = time.monotonic()
            return self._keys

    async def exchange(self, code: str, redirect_uri: str, verifier: str) -> Tokens:
        """A code for tokens; it works once, and only for who knows the verifier."""
        metadata = await self.metadata()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        auth = None
        if self._secret and metadata.basic:
            auth = httpx2.BasicAuth(quote(self._client_id, safe=""), quote(self._secret, safe=""))
        elif self._secret:
            form |= {"client_id": self._client_id, "client_secret": self._secret}
        else:
            form["client_id"] = self._client_id
        request = self._http.build_request("POST", metadata.token_endpoint, data=form)
        told = await self._ask(request, auth, refused="The provider does not take this code.")
        id_token, access_token = told.get("id_token"), told.get("access_token", "")
        if not isinstance(id_token, str) or not isinstance(access_token, str):
            raise Denied("The provider has sent no token.")
        return Tokens(id_token, access_token)

    async def userinfo(self, access_token: str) -> dict[str, Any]:
        metadata = await self.metadata()
        if not metadata.userinfo_endpoint or not access_token:
            return {}
        return await self._get(metadata.userinfo_endpoint, {"Authorization": f"Bearer {access_token}"})

    async def _discover(self) -> Metadata:
        self._check_encrypted(self._issuer)
        told = await self._get(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        if told.get("issuer") != self._issuer:
            raise Unavailable(
                f"The provider at {self._issuer} calls itself {str(told.get('issuer'))[:200]!r}. "
                "Set oidc.issuer to what it calls itself, to the letter."
            )
        methods = told.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        return Metadata(
            self._endpoint(told, "authorization_endpoint"),
            self._endpoint(told, "token_endpoint"),
            self._endpoint(told, "jwks_uri"),
            self._endpoint(told, "userinfo_endpoint") if told.get("userinfo_endpoint") else None,
            told.get("authorization_response_iss_parameter_supported") is True,
            "client_secret_basic" in methods,
        )

    def _endpoint(self, told: dict[str, Any], name: str) -> str:
        url = told.get(name)
        if not isinstance(url, str) or len(url) > 2048:
            raise Unavailable(f"The provider at {self._issuer} does not say its {name}.")
        self._check_encrypted(url)
        return url

    def _check_encrypted(self, url: str) -> None:
        """Accept https; and http on this machine, but only if the owner has put the provider there."""
        place, issuer = _split(url), _split(self._issuer)
        is_here = issuer.scheme == "http" and _is_loopback(issuer.hostname) and _is_loopback(place.hostname)
        if place.scheme != "https" and not (place.scheme == "http" and is_here):
            raise Unavailable(f"{url[:200]} is not encrypted. A provider is spoken with by https.")

    @asynccontextmanager
    async def _in_time(self, url: str) -> AsyncIterator[None]:
        """Limit the whole of an exchange: the client's own timeout begins anew with every byte.

        Waiting for the lock counts too, else logins behind a slow answer would time out one by one.
        """
        try:
            async with asyncio.timeout(self.patience_s):
                yield
        except TimeoutError:
            raise Unavailable(
                f"The provider at {_split(url).netloc} has not answered in {self.patience_s:g} s. Try again."
            ) from None

    async def _get(self, url: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
        asked = {"Accept": "application/json", **(headers or {})}
        request = self._http.build_request("GET", url, headers=asked)
        return await self._ask(request, None)

    async def _ask(
        self, request: httpx2.Request, auth: httpx2.Auth | None, refused: str | None = None
    ) -> dict[str, Any]:
        """A JSON object, whatever else may come."""
        place = f"{request.url.scheme}://{request.url.netloc.decode()}"
        request.headers["Accept-Encoding"] = "identity"  # few bytes could unfold to many
        try:
            async with self._in_time(place):
                answer = await self._http.send(request, stream=True, auth=auth, follow_redirects=False)
                try:
                    body = b""
                    async for piece in answer.aiter_raw():
                        body += piece
                        if len(body) > MAX_BYTES:
                            raise Unavailable(f"The provider at {place} says too much.")
                finally:
                    await answer.aclose()
        except httpx2.HTTPError as error:
            raise Unavailable(f"The provider at {place} does not answer: {type(error).__name__}.") from None
        if refused and answer.status_code in (400, 401, 403):
            raise Denied(refused)
        try:
            told = json.loads(body) if answer.status_code == 200 else None
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict):
            raise Unavailable(
                f"The provider at {place} answers with {answer.status_code} and no JSON object."
            )
        return told


def _key_set(told: dict[str, Any]) -> KeySet:
    """The keys that sign; those of other kinds, and what is no key, are passed over."""
    found = told.get("keys")
    listed = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    keys = [each for each in listed if each.get("kty") in KINDS and each.get("use", "sig") == "sig"]
    try:
        return KeySet.import_key_set({"keys": keys})
    except (JoseError, ValueError, KeyError, TypeError):
        raise Unavailable("The provider publishes no key that could be used.") from None


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise Unavailable(
            f"{url[:200]!r} is not a URL. A provider is at one that begins with https."
        ) from None


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
