"""A connection to a server, for programs without an event loop: scripts and notebooks."""

import time
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2

import hutch
from hutch.cli.api_client import TRANSIENT, check
from hutch.cli.server_address_and_token import API, Address, find_address
from hutch.cli.server_certificates import trusted
from hutch.domain.errors import Unavailable
from hutch.library.session import Session

RETRY_DELAYS_S = (0.2, 0.5, 1.0, 2.0)
TIMEOUT_S = 660.0  # a command may take ten minutes


class Connection:
    """The sessions of one user on a server. Used within `with`, or closed at the end."""

    def __init__(self, address: Address) -> None:
        headers = {"User-Agent": f"hutch-python/{hutch.__version__}"}
        if address.token:
            headers["Authorization"] = f"Bearer {address.token}"
        self.url, self._is_local = address.url, address.is_local
        self.http = httpx2.Client(
            base_url=f"{address.url}{API}",
            headers=headers,
            verify=trusted(address),
            timeout=httpx2.Timeout(TIMEOUT_S, connect=10.0),
            trust_env=not address.is_local,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.http.close()

    def new_session(
        self,
        prompt: str = "",
        *,
        repository: str | Path = "",
        model: str = "",
        persona: str = "",
        deliver: bool = False,
        **options: Any,
    ) -> Session:
        """Open a session, with a first prompt if one is given. `options` are further fields of
        `POST /sessions`, such as `network`, `limits` and `purpose`."""
        place = str(repository)
        if place and "://" not in place and self._is_local:
            place = str(Path(place).expanduser().resolve())
        body = {"prompt": prompt, "repository": place, "model": model, "persona": persona, "deliver": deliver}
        return Session(self, self.request("POST", "/sessions", json={**body, **options}).json())

    def session(self, id: str) -> Session:
        """A session by its id."""
        return Session(self, self.request("GET", f"/sessions/{id}").json())

    def sessions(self, limit: int = 50) -> list[Session]:
        """The newest sessions."""
        found = self.request("GET", "/sessions", params={"limit": limit}).json()["items"]
        return [Session(self, each) for each in found]

    def request(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """A request to the API, retried after transient failures; an error response raises a `HutchError`.
        The server performs a POST once, however often it is sent."""
        headers = {**options.pop("headers", {})}
        if method == "POST":
            headers["Idempotency-Key"] = str(uuid.uuid4())
        for delay_s in (*RETRY_DELAYS_S, None):
            try:
                answer = self.http.request(method, path, headers=headers, **options)
                if answer.status_code not in TRANSIENT or delay_s is None:
                    check(answer)
                    return answer
            except (httpx2.TransportError, OSError) as error:
                if delay_s is None:
                    raise Unavailable(f"The server at {self.url} does not respond: {error}.") from error
            time.sleep(delay_s or 0)
        raise AssertionError("the last attempt returns or raises")


def connect_to(url: str, token: str) -> Connection:
    """The server at an address; without one, that of `HUTCH_SERVER`, of `hutch login`, or of this machine."""
    return Connection(Address(url.rstrip("/"), token, "environment") if url else find_address())
