"""The client of the API: the server's address, retries and errors."""

import json
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hutch.cli import exit_codes
from hutch.cli.api_client import Client
from hutch.cli.exit_codes import error_json
from hutch.cli.server_address_and_token import (
    NO_SERVER,
    Address,
    find_address,
    parse_url,
    store_login,
    stored_login,
)
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
from hutch.settings import Paths

pytestmark = pytest.mark.anyio
Answer = tuple[int, dict[str, Any], dict[str, str]] | None  # None cuts the line


@contextmanager
def answering(answer: Callable[[int], Answer]) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A server that answers the nth request so; and the headers of all that came."""
    came: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            came.append({name.lower(): value for name, value in self.headers.items()})
            found = answer(len(came))
            if found is None:
                self.connection.close()
                return
            status, body, headers = found
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"content-length": str(len(data)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _answer

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", came
    finally:
        server.shutdown()
        server.server_close()


def client_of(url: str, token: str = "secret") -> Client:
    return Client(lambda: Address(url, token, "login"))


def problem(status: int, code: str, **more: Any) -> Answer:
    return status, {"code": code, "detail": "No.", **more}, {}


async def test_a_lost_request_is_retried_with_the_same_key() -> None:
    with answering(lambda n: None if n == 1 else (201, {"id": "x"}, {})) as (url, came):
        async with client_of(url) as client:
            assert await client.post("/sessions", {}) == {"id": "x"}
    assert len(came) == 2
    assert came[0]["idempotency-key"] == came[1]["idempotency-key"]
    assert came[0]["authorization"] == "Bearer secret"


async def test_a_busy_server_is_retried() -> None:
    def answer(n: int) -> Answer:
        return [problem(503, "unavailable"), (429, {}, {"retry-after": "0"}), (200, {"ok": True}, {})][n - 1]

    with answering(answer) as (url, _):
        async with client_of(url) as client:
            assert await client.get("/me") == {"ok": True}


@pytest.mark.parametrize(
    ("output", "kind", "code"),
    [
        (problem(404, "not_found"), NotFound, exit_codes.BAD_REQUEST),
        (problem(422, "invalid"), BadRequest, exit_codes.BAD_REQUEST),
        (problem(409, "conflict"), Conflict, exit_codes.BAD_REQUEST),
        (problem(403, "denied"), Denied, exit_codes.DENIED),
        (problem(401, "unauthenticated"), Unauthenticated, exit_codes.DENIED),
        (problem(413, "limit_reached", limit="server.body_bytes"), LimitReached, exit_codes.LIMIT_REACHED),
        (problem(429, "too_many_requests", retry_after_s=90), TooManyRequests, exit_codes.LIMIT_REACHED),
        (problem(500, "internal", trace_id="abc"), Unavailable, exit_codes.UNAVAILABLE),
        (problem(500, "record_damaged"), RecordDamaged, exit_codes.NO),
        ((500, {"hello": "world"}, {}), Unavailable, exit_codes.UNAVAILABLE),
        ((302, {}, {"location": "http://elsewhere"}), BadRequest, exit_codes.BAD_REQUEST),
    ],
)
async def test_errors_are_of_the_same_family_as_on_the_server(
    output: Answer, kind: type[HutchError], code: int
) -> None:
    with answering(lambda n: output) as (url, came):
        async with client_of(url) as client:
            with pytest.raises(kind) as raised:
                await client.get("/me")
    assert type(raised.value) is kind
    assert exit_codes.code_of(raised.value) == code
    assert len(came) == 1
    assert json.loads(error_json(raised.value))["error"]["detail"] == str(raised.value)


async def test_an_unreachable_server_is_named() -> None:
    with answering(lambda n: None) as (url, _):
        pass
    async with client_of(url) as client:
        with pytest.raises(Unavailable, match=f"{url} does not respond"):
            await client.get("/me")


async def test_a_token_does_not_follow_a_redirect() -> None:
    with answering(lambda n: (200, {}, {})) as (elsewhere, came):
        with answering(lambda n: (307, {}, {"location": elsewhere})) as (url, _):
            async with client_of(url) as client:
                with pytest.raises(BadRequest, match="redirects to"):
                    await client.get("/me")
        assert came == []


def test_without_a_server_the_message_says_how_to_start_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HUTCH_SERVER", raising=False)
    with pytest.raises(Unavailable) as raised:
        find_address(Paths.of({"HUTCH_HOME": str(tmp_path)}))
    assert str(raised.value) == NO_SERVER


def test_only_its_owner_can_read_a_stored_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HUTCH_SERVER", raising=False)
    paths = Paths.of({"HUTCH_HOME": str(tmp_path)})
    kept = Address("https://hutch.example.com", "hutch_x", "login", user="ada")
    store_login(paths, kept)
    assert stat.S_IMODE(paths.login_file.stat().st_mode) == 0o600
    assert find_address(paths) == stored_login(paths) == kept
    monkeypatch.setenv("HUTCH_SERVER", "other.example.com")
    monkeypatch.setenv("HUTCH_TOKEN", "t")
    assert find_address(paths) == Address("https://other.example.com", "t", "environment")


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("hutch.example.com", "https://hutch.example.com"),
        ("http://127.0.0.1:8484/", "http://127.0.0.1:8484"),
        ("https://[::1]:1/hutch/", "https://[::1]:1/hutch"),
    ],
)
def test_addresses_are_parsed(given: str, url: str) -> None:
    assert parse_url(given) == url


@pytest.mark.parametrize("given", ["ftp://x", "https://", "https://u:p@x", "https://x?q", "https://x:port"])
def test_invalid_addresses_are_refused(given: str) -> None:
    with pytest.raises(BadRequest):
        parse_url(given)
