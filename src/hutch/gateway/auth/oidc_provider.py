"""HTTP client for the identity provider: metadata, keys, and the exchange of codes for tokens.

The provider is trusted to identify users and for nothing else. Its responses are limited
in size and time, and redirects are not followed.
"""

import asyncio
import ipaddress
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

import httpx2
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from hutch.domain.errors import Denied, Unavailable
from hutch.system.lazy_dataclass import dataclass
from hutch.system.trusted_certificates import trusted_certificates

MAX_BYTES = 512 * 1024
TIMEOUT_S = 10.0
METADATA_LIFE_S = 3600.0
KEYS_LIFE_S = 3600.0
NEW_KEYS_INTERVAL_S = 10.0  # between two requests for a missing key
KINDS = ("RSA", "EC", "OKP")  # no shared secrets: all their readers could sign


@dataclass(frozen=True, slots=True)
class Metadata:
    """The provider's published metadata."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    says_issuer: bool  # its responses name the issuer
    basic: bool  # the secret goes into the header, not into the form


@dataclass(frozen=True, slots=True)
class Tokens:
    id_token: str
    access_token: str


class Provider:
    """One provider, with cached metadata and keys."""

    def __init__(self, issuer: str, client_id: str, secret: str | None) -> None:
        self._issuer = issuer
        self._client_id = client_id
        self._secret = secret
        self._http = httpx2.AsyncClient(timeout=TIMEOUT_S, verify=trusted_certificates())
        self.timeout_s = TIMEOUT_S
        self.new_keys_interval_s = NEW_KEYS_INTERVAL_S
        self._lock = asyncio.Lock()
        self._metadata: Metadata | None = None
        self._metadata_until = 0.0
        self._keys: KeySet | None = None
        self._keys_at = float("-inf")

    async def close(self) -> None:
        await self._http.aclose()

    async def metadata(self) -> Metadata:
        async with self._time_limit(self._issuer), self._lock:
            if self._metadata is None or time.monotonic() > self._metadata_until:
                self._metadata = await self._discover()
                self._metadata_until = time.monotonic() + METADATA_LIFE_S
            return self._metadata

    async def keys(self, kid: str | None) -> KeySet:
        """The provider's keys; fetched again when a token names an unknown one."""
        metadata = await self.metadata()
        async with self._time_limit(metadata.jwks_uri), self._lock:
            age_s = time.monotonic() - self._keys_at
            known = self._keys is not None and (kid is None or any(key.kid == kid for key in self._keys))
            if self._keys is None or age_s > KEYS_LIFE_S or (not known and age_s > self.new_keys_interval_s):
                self._keys = _key_set(await self._get(metadata.jwks_uri))
                self._keys_at = time.monotonic()
            return self._keys

    async def exchange(self, code: str, redirect_uri: str, verifier: str) -> Tokens:
        """Exchange a code for tokens. It works once, and only with the verifier."""
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
        document = await self._fetch_json(request, auth, refused="The provider does not accept this code.")
        id_token, access_token = document.get("id_token"), document.get("access_token", "")
        if not isinstance(id_token, str) or not isinstance(access_token, str):
            raise Denied("The provider sent no token.")
        return Tokens(id_token, access_token)

    async def userinfo(self, access_token: str) -> dict[str, Any]:
        metadata = await self.metadata()
        if not metadata.userinfo_endpoint or not access_token:
            return {}
        return await self._get(metadata.userinfo_endpoint, {"Authorization": f"Bearer {access_token}"})

    async def _discover(self) -> Metadata:
        self._check_encrypted(self._issuer)
        document = await self._get(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        if document.get("issuer") != self._issuer:
            raise Unavailable(
                f"The provider at {self._issuer} calls itself {str(document.get('issuer'))[:200]!r}. "
                "Set oidc.issuer to exactly that value."
            )
        methods = document.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        return Metadata(
            self._endpoint(document, "authorization_endpoint"),
            self._endpoint(document, "token_endpoint"),
            self._endpoint(document, "jwks_uri"),
            self._endpoint(document, "userinfo_endpoint") if document.get("userinfo_endpoint") else None,
            document.get("authorization_response_iss_parameter_supported") is True,
            "client_secret_basic" in methods,
        )

    def _endpoint(self, document: dict[str, Any], name: str) -> str:
        url = document.get(name)
        if not isinstance(url, str) or len(url) > 2048:
            raise Unavailable(f"The provider at {self._issuer} publishes no {name}.")
        self._check_encrypted(url)
        return url

    def _check_encrypted(self, url: str) -> None:
        """Accept https. Accept http on this machine only if the issuer itself is there."""
        target, issuer = _split(url), _split(self._issuer)
        is_local = issuer.scheme == "http" and _is_loopback(issuer.hostname) and _is_loopback(target.hostname)
        if target.scheme != "https" and not (target.scheme == "http" and is_local):
            raise Unavailable(f"{url[:200]} is not encrypted. Providers must use https.")

    @asynccontextmanager
    async def _time_limit(self, url: str) -> AsyncIterator[None]:
        """Limit the whole exchange: the HTTP client's own timeout restarts with every byte.

        Waiting for the lock counts too, else logins behind a slow response would time out one by one.
        """
        try:
            async with asyncio.timeout(self.timeout_s):
                yield
        except TimeoutError:
            raise Unavailable(
                f"The provider at {_split(url).netloc} did not answer within {self.timeout_s:g} s. Try again."
            ) from None

    async def _get(self, url: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
        all_headers = {"Accept": "application/json", **(headers or {})}
        request = self._http.build_request("GET", url, headers=all_headers)
        return await self._fetch_json(request, None)

    async def _fetch_json(
        self, request: httpx2.Request, auth: httpx2.Auth | None, refused: str | None = None
    ) -> dict[str, Any]:
        """The JSON object of a response; anything else is an error."""
        target = f"{request.url.scheme}://{request.url.netloc.decode()}"
        request.headers["Accept-Encoding"] = "identity"  # a compressed body could expand beyond the limit
        try:
            async with self._time_limit(target):
                answer = await self._http.send(request, stream=True, auth=auth, follow_redirects=False)
                try:
                    body = b""
                    async for chunk in answer.aiter_raw():
                        body += chunk
                        if len(body) > MAX_BYTES:
                            raise Unavailable(f"The provider at {target} sent a response that is too large.")
                finally:
                    await answer.aclose()
        except httpx2.HTTPError as error:
            raise Unavailable(f"The provider at {target} does not answer: {type(error).__name__}.") from None
        if refused and answer.status_code in (400, 401, 403):
            raise Denied(refused)
        try:
            document = json.loads(body) if answer.status_code == 200 else None
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise Unavailable(
                f"The provider at {target} answers with {answer.status_code} and no JSON object."
            )
        return document


def _key_set(document: dict[str, Any]) -> KeySet:
    """The signing keys; entries of other kinds and malformed entries are skipped."""
    found = document.get("keys")
    listed = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    keys = [each for each in listed if each.get("kty") in KINDS and each.get("use", "sig") == "sig"]
    try:
        return KeySet.import_key_set({"keys": keys})
    except (JoseError, ValueError, KeyError, TypeError):
        raise Unavailable("The provider publishes no usable key.") from None


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise Unavailable(f"{url[:200]!r} is not a URL. A provider's URL begins with https.") from None


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
