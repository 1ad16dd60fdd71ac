"""The request filter: each attack works without its check, and fails with it."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from hutch.gateway.auth.host_origin_and_rate_filter import check_frequency, check_host, check_origin
from hutch.gateway.auth.server_names_and_client_address import ServerNames
from hutch.gateway.auth.token_bucket_rate_limits import MAX_BUCKETS, RateLimiter, address_key
from hutch.settings.server_sections import Server
from tests.deadline import DEADLINE_S
from tests.gateway.request_filter_server import Answering, answering, bearer

pytestmark = pytest.mark.anyio
UNGUARDED = pytest.mark.parametrize("guarded", [False, True], ids=["open", "guarded"])


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Answering]:
    async with answering(tmp_path) as made:
        yield made


def is_problem(answer: httpx.Response, code: str) -> bool:
    assert answer.headers["content-type"] == "application/problem+json"
    result = answer.json()
    return result["status"] == answer.status_code and result["code"] == code and bool(result["detail"])


@UNGUARDED
@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80"])
async def test_a_foreign_name_that_points_here(tmp_path: Path, host: str, guarded: bool) -> None:
    async with (
        answering(tmp_path, checks=(check_host,) if guarded else ()) as served,
        served.client() as http,
    ):
        answer = await http.get("/api/v1/open", headers={"Host": host})
        assert answer.status_code == (421 if guarded else 200)
        assert not guarded or is_problem(answer, "denied")
        assert bool(served.seen) is not guarded


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:{port}", "127.0.0.1:{port}", "[::1]:{port}", "localhost."]
)
async def test_names_of_this_machine(served: Answering, host: str) -> None:
    async with served.client() as http:
        answer = await http.get("/api/v1/open", headers={"Host": host.format(port=served.port)})
        assert answer.status_code == 200


@pytest.mark.parametrize(
    "host", ["", "local host", "localhost:port", "localhost/", "user@localhost", "[::1", "a,b"]
)
async def test_invalid_hosts(served: Answering, host: str) -> None:
    answer = await raw(served, f"GET /api/v1/open HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
    assert status(answer) in (400, 421)


@pytest.mark.parametrize("hosts", ["", "Host: localhost\r\nHost: evil.example\r\n"])
async def test_no_host_or_two(served: Answering, hosts: str) -> None:
    answer = await raw(served, f"GET /api/v1/open HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n")
    assert status(answer) in (400, 421)
    assert served.seen == []


async def test_names_that_were_given_to_it(tmp_path: Path) -> None:
    server = Server(
        hostnames=("hutch.example.com", "*.preview.example.com"), public_url="https://h.example.org"
    )
    async with answering(tmp_path, server=server) as served, served.client() as http:
        for host, expected in {
            "hutch.example.com": 200,
            "a.preview.example.com:444": 200,
            "h.example.org": 200,
            "preview.example.com": 421,
            "xpreview.example.com": 421,
            "example.com": 421,
        }.items():
            answer = await http.get("/api/v1/open", headers={"Host": host})
            assert (host, answer.status_code) == (host, expected)


@UNGUARDED
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},  # another port of this machine
        {"Origin": "https://127.0.0.1:{port}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://127.0.0.1:{port}"},
    ],
)
async def test_a_page_of_another_origin(tmp_path: Path, headers: dict[str, str], guarded: bool) -> None:
    async with (
        answering(tmp_path, checks=(check_origin,) if guarded else ()) as served,
        served.client() as http,
    ):
        sent = {name: value.format(port=served.port) for name, value in headers.items()}
        answer = await http.post("/api/v1/open", headers=sent, content=b"x")
        assert answer.status_code == (403 if guarded else 200)
        assert not guarded or is_problem(answer, "denied")


@UNGUARDED
async def test_a_websocket_of_another_origin(tmp_path: Path, guarded: bool) -> None:
    async with answering(tmp_path, checks=(check_origin,) if guarded else (), check_csrf=False) as served:
        owner = await served.accounts.ensure_owner("ada")
        _, secret = await served.accounts.browsers.begin(owner.id, began_by="link", address="", agent="")
        cookie = {"Cookie": f"hutch_{served.port}={secret}"}
        address = f"ws://127.0.0.1:{served.port}/api/v1/socket"
        try:
            async with connect(address, origin="http://evil.example", additional_headers=cookie) as socket:
                assert await socket.recv() == "ada"
                assert not guarded
        except InvalidStatus as refused:
            assert guarded
            assert refused.response.status_code == 403
            assert json.loads(refused.response.body)["code"] == "denied"
        own = f"http://127.0.0.1:{served.port}"
        async with connect(address, origin=own, additional_headers=cookie) as socket:
            assert await socket.recv() == "ada"


async def test_a_websocket_under_a_strange_name(served: Answering) -> None:
    token = await served.token(await served.accounts.ensure_owner("ada"))
    with pytest.raises(InvalidStatus) as refused:
        await connect(
            f"ws://evil.example:{served.port}/api/v1/socket",
            host="127.0.0.1",
            additional_headers=bearer(token),
        )
    assert refused.value.response.status_code == 421


async def test_pages_of_its_own_and_programs(served: Answering) -> None:
    own = f"http://127.0.0.1:{served.port}"
    async with served.client() as http:
        for headers in ({"Origin": own}, {}, {"Sec-Fetch-Site": "same-origin", "Origin": own}):
            assert (await http.post("/api/v1/open", headers=headers)).status_code == 200
        foreign = await http.get("/api/v1/open", headers={"Origin": "http://evil.example"})
        assert "access-control-allow-origin" not in foreign.headers


@UNGUARDED
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_too_large(tmp_path: Path, chunked: bool, guarded: bool) -> None:
    size = 300_000

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(size // 1000):
            yield b"x" * 1000

    server = Server(body_bytes=100_000)
    async with answering(tmp_path, server=server, filtered=guarded) as served, served.client() as http:
        answer = await http.post("/api/v1/open", content=pieces() if chunked else b"x" * size)
        assert answer.status_code == (413 if guarded else 200)
        assert not guarded or is_problem(answer, "limit_reached")
        assert ("open", size) not in served.seen or not guarded
        right = await http.post("/api/v1/open", content=b"x" * 100_000)
        assert right.json()["bytes"] == 100_000


async def test_a_body_that_is_read_by_the_framework(tmp_path: Path) -> None:
    async with answering(tmp_path, server=Server(body_bytes=2000)) as served, served.client() as http:
        token = await served.token(await served.accounts.ensure_owner("ada"), "write")

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(100):
                yield b"x" * 1000

        answer = await http.post("/api/v1/write", content=pieces(), headers=bearer(token))
        assert answer.status_code == 413
        assert is_problem(answer, "limit_reached")
        assert answer.json()["limit"] == "server.body_bytes"


async def test_a_client_that_expects_continue_is_answered_at_once(tmp_path: Path) -> None:
    async with answering(tmp_path, server=Server(body_bytes=2000)) as served:
        head = "POST /api/v1/open HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
        answer = await raw(served, f"{head}Content-Length: 5000\r\n\r\n")
        assert status(answer) == 413


@pytest.mark.parametrize("length", ["99999999999999999999999999", "-1", "1e9", "0x10"])
async def test_a_length_that_is_absurd(served: Answering, length: str) -> None:
    answer = await raw(
        served, f"POST /api/v1/open HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
    )
    assert status(answer) in (400, 413)


@UNGUARDED
async def test_a_sender_that_is_too_slow(tmp_path: Path, guarded: bool) -> None:
    loop = asyncio.get_running_loop()
    async with answering(tmp_path, server=Server(body_timeout_s=1), filtered=guarded) as served:
        # A bare socket: a stream forgets what it has received when one of its writes fails.
        with socket.create_connection(("127.0.0.1", served.port)) as client:
            client.setblocking(False)
            head = b"POST /api/v1/open HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
            await loop.sock_sendall(client, head)

            async def drip() -> None:
                with contextlib.suppress(OSError):
                    for _ in range(60):
                        await loop.sock_sendall(client, b"x")
                        await asyncio.sleep(0.1)

            dripping = asyncio.ensure_future(drip())
            if guarded:
                said = b""
                while b"server.body_timeout_s" not in said:
                    received = await asyncio.wait_for(loop.sock_recv(client, 65536), DEADLINE_S)
                    assert received, said
                    said += received
                assert status(said) == 408
            else:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(loop.sock_recv(client, 65536), 3)
            dripping.cancel()
            await asyncio.wait([dripping])


async def test_waiting_after_the_body_is_not_slow(tmp_path: Path) -> None:
    async with answering(tmp_path, server=Server(body_timeout_s=1)) as served, served.client() as http:

        @served.app.post("/late")
        async def late() -> str:
            await asyncio.sleep(1.5)
            return "done"

        assert (await http.post("/late", content=b"x")).json() == "done"


@UNGUARDED
async def test_too_many_requests(tmp_path: Path, guarded: bool) -> None:
    server = Server(requests_per_minute=5)
    checks = (check_frequency,) if guarded else ()
    async with answering(tmp_path, server=server, checks=checks) as served, served.client() as http:
        answers = [await http.get("/api/v1/open") for _ in range(8)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429 if guarded else 200] * 3
        if guarded:
            assert is_problem(answers[-1], "too_many_requests")
            assert 1 <= int(answers[-1].headers["retry-after"]) <= 60


async def test_a_known_caller_is_counted_apart_from_the_address(tmp_path: Path) -> None:
    async with answering(tmp_path, server=Server(requests_per_minute=5)) as served, served.client() as http:
        owner = await served.accounts.ensure_owner("ada")
        one, other = await served.token(owner), await served.token(owner)
        for token in (one, other):
            said = [(await http.get("/api/v1/read", headers=bearer(token))).status_code for _ in range(7)]
            assert said == [200] * 5 + [429] * 2
        assert (await http.get("/api/v1/open")).status_code == 200  # the address has paid for none of it


async def test_guessing_tokens_is_paid_by_the_address(tmp_path: Path) -> None:
    async with answering(tmp_path, server=Server(requests_per_minute=5)) as served, served.client() as http:
        said = [
            (await http.get("/api/v1/read", headers=bearer(f"hutch_{number:043}"))).status_code
            for number in range(8)
        ]
        assert said == [401] * 5 + [429] * 3


async def test_unauthenticated_callers_do_not_use_up_the_requests_of_a_valid_token(tmp_path: Path) -> None:
    async with answering(tmp_path, server=Server(requests_per_minute=5)) as served, served.client() as http:
        owner = await served.accounts.ensure_owner("ada")
        old, new = await served.token(owner), await served.token(owner)
        said = [(await http.get("/api/v1/open")).status_code for _ in range(8)]
        assert said == [200] * 5 + [429] * 3
        assert (await http.get("/api/v1/read", headers=bearer(old))).status_code == 200
        said = [
            (await http.get("/api/v1/read", headers=bearer(f"hutch_{number:043}"))).status_code
            for number in range(8)
        ]
        assert said == [401] * 5 + [429] * 3
        said = [(await http.get("/api/v1/read", headers=bearer(old))).status_code for _ in range(6)]
        assert said == [200] * 4 + [429] * 2
        # Guesses stay bounded: what was never recognised waits, and a known token gives them nothing back.
        assert (await http.get("/api/v1/read", headers=bearer(new))).status_code == 429


async def test_only_a_trusted_proxy_is_believed(tmp_path: Path) -> None:
    headers = {"X-Forwarded-For": "6.6.6.6, 203.0.113.9, 10.0.0.7", "X-Forwarded-Proto": "https"}
    for proxies, client, scheme in (
        ((), "127.0.0.1", "http"),
        (("127.0.0.1",), "10.0.0.7", "https"),
        (("127.0.0.0/8", "10.0.0.0/8"), "203.0.113.9", "https"),
    ):
        server = Server(trusted_proxies=proxies)
        async with answering(tmp_path, server=server) as served, served.client() as http:
            result = (await http.get("/api/v1/open", headers=headers)).json()
            assert (result["client"], result["scheme"]) == (client, scheme)


async def test_every_answer_says_how_to_treat_it(served: Answering) -> None:
    async with served.client() as http:
        answer = await http.get("/api/v1/open")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "private, no-cache"
    assert "strict-transport-security" not in answer.headers


def test_a_bucket_refills_evenly() -> None:
    now = [0.0]
    buckets = RateLimiter(60, clock=lambda: now[0])
    assert [buckets.take("a") for _ in range(62)] == [0] * 60 + [1, 1]
    assert buckets.take("b") == 0
    now[0] += 2
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 1]
    buckets.put_back("a")
    assert buckets.take("a") == 0


def test_unauthenticated_callers_do_not_make_the_buckets_grow() -> None:
    buckets = RateLimiter(60, clock=lambda: 0.0)
    for number in range(MAX_BUCKETS * 2):
        buckets.take(str(number))
    assert len(buckets._full_at) <= MAX_BUCKETS


def test_an_address_of_ipv6_is_its_network() -> None:
    assert address_key("2001:db8::1") == address_key("2001:db8::ffff") != address_key("2001:db8:0:1::1")
    assert address_key("::ffff:10.0.0.1") == address_key("10.0.0.1")


def test_the_listening_address_is_a_host_name_unless_it_is_a_wildcard() -> None:
    assert "10.1.2.3" in ServerNames.of(Server(host="10.1.2.3")).hosts
    assert "0.0.0.0" not in ServerNames.of(Server(host="0.0.0.0")).hosts


async def raw(served: Answering, text: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(text.encode())
    said = await asyncio.wait_for(reader.read(65536), DEADLINE_S)
    writer.close()
    return said


def status(answer: bytes) -> int:
    return int(answer.split()[1])
