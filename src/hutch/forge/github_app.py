"""Tokens of a GitHub App: a signed JWT is exchanged for a token of one installation.

This does not use gh, because gh sends tokens in a header that GitHub does not accept from
an App.
"""

import asyncio
import time
from dataclasses import field
from datetime import datetime
from typing import Any

import httpx2
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from hutch.domain.errors import BadRequest, Denied, NotFound, Unavailable
from hutch.forge.gh_command import GITHUB
from hutch.system.lazy_dataclass import dataclass
from hutch.system.trusted_certificates import trusted_certificates

EXPIRY_MARGIN_S = 300  # a token is renewed this long before it expires
JWT_LIFETIME_S = 540  # GitHub refuses JWTs that are valid for more than ten minutes
CLOCK_SKEW_S = 60
TIMEOUT_S = 30.0


@dataclass(slots=True)
class GitHubApp:
    """One App on one host."""

    host: str
    app_id: str
    key: str = field(repr=False)  # PEM
    socket: str = ""
    _tokens: dict[str, tuple[str, float]] = field(default_factory=dict, repr=False)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    async def token(self, full_name: str) -> str:
        """A token for a repository that the App is installed on."""
        async with self._lock:
            token, until = self._tokens.get(full_name, ("", 0.0))
            if until - EXPIRY_MARGIN_S > time.monotonic():
                return token
            found = await self._request("GET", f"/repos/{full_name}/installation", full_name)
            try:
                way = f"/app/installations/{int(found['id'])}/access_tokens"
                made = await self._request("POST", way, full_name)
                lifetime_s = datetime.fromisoformat(made["expires_at"]).timestamp() - time.time()
                token, until = str(made["token"]), time.monotonic() + lifetime_s
            except (KeyError, TypeError, ValueError):
                raise Unavailable(
                    f"{self.host} sent an unexpected response to the GitHub App. Retry later."
                ) from None
            self._tokens[full_name] = token, until
            return token

    def sign_jwt(self) -> str:
        now = int(time.time())
        claims = {"iat": now - CLOCK_SKEW_S, "exp": now + JWT_LIFETIME_S, "iss": self.app_id}
        try:
            return jwt.encode({"alg": "RS256"}, claims, RSAKey.import_key(self.key))
        except (ValueError, JoseError):
            raise BadRequest(
                "The secret github_app_key is no private key of a GitHub App. Set it from the .pem file: "
                "hutch config set-secret github_app_key < FILE"
            ) from None

    async def _request(self, method: str, path: str, full_name: str) -> dict[str, Any]:
        tls = trusted_certificates()
        transport = httpx2.AsyncHTTPTransport(uds=self.socket, verify=tls) if self.socket else None
        scheme = "http" if self.socket else "https"
        base = f"{scheme}://api.github.com" if self.host == GITHUB else f"{scheme}://{self.host}/api/v3"
        headers = {"Authorization": f"Bearer {self.sign_jwt()}", "Accept": "application/vnd.github+json"}
        try:
            async with httpx2.AsyncClient(
                transport=transport, timeout=TIMEOUT_S, follow_redirects=False, verify=tls
            ) as client:
                response = await client.request(method, base + path, headers=headers)
                content = response.json()
        except (httpx2.HTTPError, ValueError) as error:
            raise Unavailable(
                f"{self.host} does not answer the GitHub App: {type(error).__name__}."
            ) from None
        if response.status_code == 404:
            raise NotFound(
                f"The GitHub App {self.app_id} is not installed on {full_name}. Install it there, or set "
                "github_token."
            )
        if response.status_code >= 500:
            raise Unavailable(f"{self.host} sent an unexpected response to the GitHub App. Retry later.")
        if response.status_code >= 300:
            raise Denied(
                f"{self.host} does not accept the signature of the GitHub App {self.app_id} "
                f"({response.status_code}). Check github.app_id, the secret github_app_key and the clock."
            )
        return content if isinstance(content, dict) else {}
