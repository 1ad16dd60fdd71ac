"""The one client of the server's API that all commands share.

What fails on the way is tried again: every request that changes something carries a
key by which the server does it once. A local server may have been started anew on
another port meanwhile, so its address is looked up again for each try.
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
from hutch.cli.server_address import API, Address, find_address
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

WAITS_S = (0.2, 0.5, 1.0, 2.0)  # between tries
MAX_WAIT_S = 10.0  # when the server says how long
TIMEOUT_S = 60.0
CONNECT_S = 10.0
PASSING = (502, 503, 504)  # statuses that may be others in a moment
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
    """A proxy answers, whose server is away."""


class Client:
    """A server, as one of its users speaks with it. Used within `async with`."""

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
        """What is there."""
        return (await self.request("GET", path, params=params)).json()

    async def post(self, path: str, body: Any = None) -> Any:
        """Something is to be done; once, however often it has to be sent."""
        answer = await self.request("POST", path, json=body)
        return answer.json() if answer.content else None

    async def put(self, path: str, body: Any) -> Any:
        """Something is to be so; said twice, it is the same."""
        return (await self.request("PUT", path, json=body)).json()

    async def delete(self, path: str) -> Any:
        answer = await self.request("DELETE", path)
        return answer.json() if answer.content else None

    async def give(self, session_id: str, kind: str, **fields: Any) -> dict[str, Any]:
        """An input for a session."""
        return dict(await self.post(f"/sessions/{session_id}/inputs", {"type": kind, **fields}))

    async def request(self, method: str, path: str, *, again: bool = True, **options: Any) -> httpx2.Response:
        """One request, sent again while that may help; an answer that is an error is raised as one."""
        headers = dict(options.pop("headers", None) or {})
        if method == "POST":
            headers.setdefault("Idempotency-Key", str(uuid.uuid4()))
        address = _api_address(path)
        waits = WAITS_S if again else ()
        for wait_s in (*waits, None):
            try:
                answer = await self._open().request(method, address, headers=headers, **options)
            except (httpx2.TransportError, OSError) as error:
                if wait_s is None:
                    raise self._no_answer(error) from error
            else:
                delay_s = _retry_after_s(answer)
                passing = answer.status_code in PASSING or delay_s is not None
                if not passing or wait_s is None:
                    check(answer)
                    return answer
                wait_s = max(wait_s, delay_s or 0)
            await asyncio.sleep(wait_s)
            await self.look_again()
        raise AssertionError("the last try answers or raises")

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
        """An answer as it comes. It is not tried again here: who reads knows how far it got."""
        patience = httpx2.Timeout(TIMEOUT_S, connect=CONNECT_S, read=silence_s)
        async with self._open().stream(
            "GET", _api_address(path), headers=headers, params=params, timeout=patience
        ) as answer:
            if answer.is_error or answer.is_redirect:
                await answer.aread()
                check(answer)
            yield answer

    async def look_again(self) -> None:
        """Find the server anew; nothing changes when it is where it was."""
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
                timeout=httpx2.Timeout(TIMEOUT_S, connect=CONNECT_S),
                trust_env=not address.is_local,
            )
        return self._http

    def _no_answer(self, error: Exception) -> Unavailable:
        return Unavailable(
            f"The server at {self.address.url} does not answer: {error or type(error).__name__}."
        )


def check(answer: httpx2.Response) -> None:
    """Raise what the server says went wrong, as an error of the same family."""
    if answer.is_redirect:
        to = answer.headers.get("location", "")
        raise BadRequest(f"{answer.url} leads to {to[:200]}. Log in there: hutch login URL")
    if answer.is_success:
        return
    try:
        told = answer.json()
        code, detail = str(told["code"]), str(told["detail"])
    except (ValueError, KeyError, TypeError):
        kind = NotHutch if answer.status_code in PASSING else Unavailable
        raise kind(
            f"{answer.url} answers with {answer.status_code}, and not as Hutch does. Is it the right address?"
        ) from None
    if code == "internal" and told.get("trace_id"):
        detail = f"{detail} ({told['trace_id']})"
    if code == "too_many_requests":
        raise TooManyRequests(
            detail, limit=str(told.get("limit")), retry_after_s=int(told.get("retry_after_s") or 1)
        )
    if code == "limit_reached":
        raise LimitReached(detail, limit=str(told.get("limit")))
    raise FAMILIES.get(code, BadRequest)(detail)


def _api_address(path: str) -> str:
    """Where the API has something. A name that a user gives must not lead to another part of it."""
    if ".." in (unquote(part) for part in path.split("/")):
        raise BadRequest(f"'{unquote(path)}': no part of a name or a path may be '..'.")
    return f"{API}{path}"


def path_of(text: str) -> str:
    """A name as a part of an address; its slashes stay."""
    return quote(text, safe="/")


def _retry_after_s(answer: httpx2.Response) -> float | None:
    """How long to wait, when that is what the server asks for and not long."""
    if answer.status_code != 429:
        return None
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isdigit() and float(text) <= MAX_WAIT_S else None
