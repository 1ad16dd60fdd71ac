"""The one client of the server's API that all commands share.

Failed requests are retried: every request that changes something carries an idempotency key, so the
server executes it once. A local server may have restarted on another port meanwhile, so each retry
looks up its address again.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any
from urllib.parse import quote, unquote

import httpx2

import hutch
from hutch.cli.server_address_and_token import API, Address, find_address
from hutch.cli.server_certificates import trusted
from hutch.domain.errors import (
    BadRequest,
    Conflict,
    Denied,
    HutchError,
    LimitReached,
    NotFound,
    RecordDamaged,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
)

RETRY_DELAYS_S = (0.2, 0.5, 1.0, 2.0)
MAX_RETRY_AFTER_S = 10.0  # a longer Retry-After is an error
TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 10.0
TRANSIENT = (502, 503, 504)
Find = Callable[[], Address]

FAMILIES: dict[str, type[HutchError]] = {
    "not_found": NotFound,
    "conflict": Conflict,
    "precondition_failed": Conflict,
    "denied": Denied,
    "unauthenticated": Unauthenticated,
    "unavailable": Unavailable,
    "record_damaged": RecordDamaged,
    "internal": Unavailable,
}


class NotHutch(Unavailable):
    """A proxy answers whose server is down."""


class Client:
    """A client of the server for one user. Used within `async with`."""

    def __init__(self, find: Find = find_address) -> None:
        self._find = find
        self.address = find()
        self._http: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._http is not None:
            await self._http.aclose()

    # --- requests ---

    async def get(self, path: str, /, **params: Any) -> Any:
        return (await self.request("GET", path, params=params)).json()

    async def post(self, path: str, body: Any = None) -> Any:
        """Send a POST request; the server executes it once, however often it is retried."""
        answer = await self.request("POST", path, json=body)
        return answer.json() if answer.content else None

    async def put(self, path: str, body: Any) -> Any:
        answer = await self.request("PUT", path, json=body)
        return answer.json() if answer.content else None

    async def delete(self, path: str) -> Any:
        answer = await self.request("DELETE", path)
        return answer.json() if answer.content else None

    async def give(self, session_id: str, kind: str, **fields: Any) -> dict[str, Any]:
        """Send an input to a session."""
        return dict(await self.post(f"/sessions/{session_id}/inputs", {"type": kind, **fields}))

    async def request(self, method: str, path: str, *, again: bool = True, **options: Any) -> httpx2.Response:
        """Send a request, retrying transient failures; raise an error response as a HutchError."""
        headers = dict(options.pop("headers", None) or {})
        if method == "POST":
            headers.setdefault("Idempotency-Key", str(uuid.uuid4()))
        address = _api_address(path)
        delays_s = RETRY_DELAYS_S if again else ()
        for delay_s in (*delays_s, None):
            try:
                answer = await self._open().request(method, address, headers=headers, **options)
            except (httpx2.TransportError, OSError) as error:
                if delay_s is None:
                    raise self._no_answer(error) from error
            else:
                retry_after_s = _retry_after_s(answer)
                is_transient = answer.status_code in TRANSIENT or retry_after_s is not None
                if not is_transient or delay_s is None:
                    check(answer)
                    return answer
                delay_s = max(delay_s, retry_after_s or 0)
            await asyncio.sleep(delay_s)
            await self.refresh_address()
        raise AssertionError("the last attempt returns or raises")

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        /,
        *,
        headers: dict[str, str] | None = None,
        silence_s: float = TIMEOUT_S,
        **params: Any,
    ) -> AsyncIterator[httpx2.Response]:
        """Stream a response. The caller retries, since only it knows how much it received."""
        timeout = httpx2.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S, read=silence_s)
        async with self._open().stream(
            "GET", _api_address(path), headers=headers, params=params, timeout=timeout
        ) as answer:
            if answer.is_error or answer.is_redirect:
                await answer.aread()
                check(answer)
            yield answer

    async def refresh_address(self) -> None:
        """Look up the server's address again, and reconnect if it has changed."""
        found = self._find()
        if found != self.address:
            self.address = found
            if self._http is not None:
                await self._http.aclose()
                self._http = None

    def _open(self) -> httpx2.AsyncClient:
        if self._http is None:
            address = self.address
            headers = {"User-Agent": f"hutch/{hutch.__version__}", "Accept": "application/json"}
            if address.token:
                headers["Authorization"] = f"Bearer {address.token}"
            self._http = httpx2.AsyncClient(
                base_url=address.url,
                headers=headers,
                verify=trusted(address),
                timeout=httpx2.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
                trust_env=not address.is_local,
            )
        return self._http

    def _no_answer(self, error: Exception) -> Unavailable:
        return Unavailable(
            f"The server at {self.address.url} does not respond: {error or type(error).__name__}."
        )


def check(answer: httpx2.Response) -> None:
    """Raise an error response as the HutchError that its code names."""
    if answer.is_redirect:
        to = answer.headers.get("location", "")
        raise BadRequest(f"{answer.url} redirects to {to[:200]}. Log in to that address: hutch login URL")
    if answer.is_success:
        return
    try:
        body = answer.json()
        code, detail = str(body["code"]), str(body["detail"])
    except (ValueError, KeyError, TypeError):
        kind = NotHutch if answer.status_code in TRANSIENT else Unavailable
        raise kind(
            f"{answer.url} answers with status {answer.status_code}, not like a Hutch server. "
            "Check the address."
        ) from None
    if code == "internal" and body.get("trace_id"):
        detail = f"{detail} ({body['trace_id']})"
    if code == "too_many_requests":
        raise TooManyRequests(
            detail, limit=str(body.get("limit")), retry_after_s=int(body.get("retry_after_s") or 1)
        )
    if code == "limit_reached":
        raise LimitReached(detail, limit=str(body.get("limit")))
    raise FAMILIES.get(code, BadRequest)(detail)


def _api_address(path: str) -> str:
    """The URL path of an API resource. A name from the user must not lead to another resource."""
    if ".." in (unquote(part) for part in path.split("/")):
        raise BadRequest(f"'{unquote(path)}': no part of a name or a path may be '..'.")
    return f"{API}{path}"


def path_of(text: str) -> str:
    """Quote a name for a URL path, keeping its slashes."""
    return quote(text, safe="/")


def _retry_after_s(answer: httpx2.Response) -> float | None:
    """The Retry-After of a 429 response; None when there is none or it is too long."""
    if answer.status_code != 429:
        return None
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isdigit() and float(text) <= MAX_RETRY_AFTER_S else None
