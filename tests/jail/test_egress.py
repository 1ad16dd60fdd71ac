"""The egress proxy: what it allows, its messages when it refuses, and real clients through it."""

import asyncio
import base64
import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import socket
import ssl
import sys
import tarfile
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutch.domain.errors import BadRequest, Denied, Unavailable
from hutch.jail.egress import EgressAttempt, EgressLimits, environment, parse_allow_list, serve_egress
from hutch.jail.egress.allow_list import Pattern, parse_pattern
from hutch.jail.egress.back_pressure_streams import Side, open_side
from hutch.jail.egress.blocked_addresses import is_own, parse_networks, refusal
from hutch.jail.egress.host_check_and_connection import resolver
from hutch.jail.egress.host_normalization import as_address, join_authority, parse_host
from hutch.jail.egress.proxy_target import Target, forwarded_headers, parse_target
from hutch.jail.egress.tls_server_name import Incomplete, server_name
from hutch.jail.egress.tunnel_relay import run_tunnel
from tests.deadline import DEADLINE_S
from tests.node_installation import npm

from .simulated_network import (
    Proxy,
    certificate,
    files,
    listening,
    origin,
    proxy,
    resolving,
    run,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


# --- the list ---


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("example.com", Pattern("example.com", below=False, port=None)),
        ("EXAMPLE.com.", Pattern("example.com", below=False, port=None)),
        ("*.example.com", Pattern("example.com", below=True, port=None)),
        ("example.com:8443", Pattern("example.com", below=False, port=8443)),
        ("*.Bücher.example:443", Pattern("xn--bcher-kva.example", below=True, port=443)),
        ("192.168.1.7:80", Pattern("192.168.1.7", below=False, port=80)),
        ("[2606:4700::0:1111]", Pattern("2606:4700::1111", below=False, port=None)),
        ("localhost", Pattern("localhost", below=False, port=None)),
    ],
)
def test_a_pattern_is_normalised(text: str, pattern: Pattern) -> None:
    assert parse_pattern(text) == pattern


@pytest.mark.parametrize(
    "text",
    [
        "",
        "*",
        "*.",
        "*.com",
        "a*.example.com",
        "*.*.example.com",
        "https://example.com",
        "example.com/x",
        "u@example.com",
        "example.com:",
        "example.com:0",
        "example.com:080",
        "example.com:65536",
        "example.com:+80",
        "127.1",
        "0x7f.1",
        "2130706433",
        "127.0.0.01",
        "*.127.0.0.1",
        "::1",
        "[::1",
        "[fe80::1%eth0]",
        "-a.example",
        "a..example",
        "exa mple.com",
        "a.example\n",
        "a\x00.example",
        "x" * 64 + ".example",
        "․.example",
        "[127.0.0.1]",
    ],
)
def test_pattern_that_cannot_be_meant_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(BadRequest) as raised:
        parse_pattern(text)
    assert repr(text)[:60] in str(raised.value)


@given(st.text(alphabet="aZ019.-_:[]%x\0 é@/*\u2024", max_size=20) | st.ip_addresses().map(str))
def test_a_host_has_one_normal_form_or_none(text: str) -> None:
    with contextlib.suppress(BadRequest):
        host = parse_host(text)
        assert parse_host(join_authority(host, None)) == host
        assert re.fullmatch(r"[a-z0-9._-]+|[0-9a-f:]+", host)
        assert not re.fullmatch(r"(.*\.)?([0-9]+|0x[0-9a-f]*)", host) or as_address(host)


def test_list_matches_hosts_and_ports() -> None:
    allow = parse_allow_list(["example.com", "*.wide.example", "odd.example:8080"])
    asked = [("example.com", 80), ("example.com", 443), ("odd.example", 8080), ("a.b.wide.example", 443)]
    assert all(allow.find(host, port) for host, port in asked)
    refused = [("example.com", 22), ("www.example.com", 443), ("wide.example", 443), ("notwide.example", 443)]
    refused += [("odd.example", 80), ("example.com.evil.example", 443), ("", 443)]
    assert not any(allow.find(host, port) for host, port in refused)
    assert not parse_allow_list([]).find("example.com", 443)


# --- addresses ---


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("0.0.0.0", "unspecified"),
        ("10.0.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.168.0.1", "private"),
        ("169.254.169.254", "link-local"),
        ("100.64.0.1", "carrier-shared"),
        ("100.100.100.200", "carrier-shared"),
        ("168.63.129.16", "cloud-internal"),
        ("::ffff:168.63.129.16", "cloud-internal"),
        ("192.0.0.192", "reserved"),
        ("224.0.0.1", "multicast"),
        ("255.255.255.255", "reserved"),
        ("192.0.2.1", "documentation"),
        ("::1", "loopback"),
        ("::", "unspecified"),
        ("::127.0.0.1", "reserved"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:169.254.169.254", "link-local"),
        ("::ffff:0:7f00:1", "reserved"),
        ("64:ff9b::7f00:1", "loopback"),
        ("64:ff9b::a00:1", "private"),
        ("64:ff9b:1::7f00:1", "local NAT64"),
        ("2002:7f00:1::", "6to4"),
        ("2001:0:7f00:1::", "Teredo"),
        ("fd00:ec2::254", "private"),
        ("fe80::1", "link-local"),
        ("fe80::1%1", "link-local"),
        ("fec0::1", "site-local"),
        ("ff02::1", "multicast"),
        ("5f00::1", "reserved"),
    ],
)
def test_address_that_is_not_public_is_refused(address: str, reason: str) -> None:
    assert refusal(ip_address(address)) == reason


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "100.128.0.1", "172.32.0.1", "2606:4700::1111", "64:ff9b::808:808"]
)
def test_public_address_is_reached(address: str) -> None:
    assert refusal(ip_address(address)) is None


def test_operator_exempts_a_network_and_no_more() -> None:
    also = parse_networks(["10.1.0.0/16"])
    assert refusal(ip_address("10.1.2.3"), also) is None
    assert refusal(ip_address("::ffff:10.1.2.3"), also) is None
    assert refusal(ip_address("10.2.0.1"), also) == "private"
    with pytest.raises(BadRequest, match="also_allow_networks"):
        parse_networks(["10.1.0.1/16"])


def test_own_address_is_known_without_a_list_of_interfaces() -> None:
    assert is_own(ip_address("127.0.0.1"))
    assert not is_own(ip_address("192.0.2.1"))


# --- the target ---


def request(method: str, target: str, *headers: tuple[str, str]) -> h11.Request:
    return h11.Request(method=method, target=target, headers=headers or [("Host", target.split("/")[2])])


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://Example.com", Target("example.com", 80, "/")),
        ("http://example.com:81?q=1", Target("example.com", 81, "/?q=1")),
        ("HTTP://example.com./a//b?c://d@e", Target("example.com", 80, "/a//b?c://d@e")),
        ("http://[2606:4700::1111]/", Target("2606:4700::1111", 80, "/")),
    ],
)
def test_url_is_read_into_host_port_and_path(url: str, target: Target) -> None:
    assert parse_target(request("GET", url, ("Host", url.split("/")[2].partition("?")[0]))) == target


def test_headers_of_this_hop_are_not_passed_on() -> None:
    asked = request(
        "POST",
        "http://a.example/",
        *[("Host", "A.example:80"), ("Connection", "x-secret, content-length, host"), ("X-Secret", "1")],
        *[("Proxy-Authorization", "Basic eA=="), ("Proxy-Connection", "keep-alive"), ("TE", "trailers")],
        *[("Upgrade", "h2c"), ("Keep-Alive", "1"), ("Content-Length", "3"), ("Accept", "*/*")],
    )
    assert forwarded_headers(parse_target(asked), asked) == [
        (b"host", b"a.example"),
        (b"accept", b"*/*"),
        (b"content-length", b"3"),
        (b"connection", b"close"),
    ]


# --- through the proxy ---


async def test_allowed_request_is_served_and_reported_twice() -> None:
    async with origin() as server, proxy(f"a.example:{server.port}") as client:
        answer = await client.get(f"a.example:{server.port}", "/x?y")
        await client.over()
    assert answer == b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello"
    passed_on = f"GET /x?y HTTP/1.1\r\nhost: a.example:{server.port}\r\nconnection: close\r\n\r\n"
    assert bytes(server.received) == passed_on.encode()
    opened, ended = client.attempts
    assert opened == EgressAttempt(
        *(1, opened.at, "GET", "a.example", server.port, True, f"allowed by a.example:{server.port}")
    )
    assert ended == replace(
        opened, address="127.0.0.1", bytes_up=len(passed_on), bytes_down=43, duration_s=ended.duration_s
    )


async def test_denied_request_says_which_host_and_how_to_allow_it() -> None:
    async with proxy("a.example") as client:
        answer = await client.get("b.example")
        tunnel = await client.ask(b"CONNECT b.example:8443 HTTP/1.1\r\nHost: b.example:8443\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert answer.endswith(b"To allow it, start with: --net b.example\n")
    assert b"--net b.example:8443\r\n" in tunnel.partition(b"\r\n\r\n")[0]  # tools show only the status line
    assert client.decided == [("GET", "b.example", 80, False), ("CONNECT", "b.example", 8443, False)]


async def test_request_and_response_bodies_pass_in_chunks() -> None:
    body = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3\r\nabc\r\n0\r\nX: 1\r\n\r\n"
    async with origin(body) as server, proxy(f"a.example:{server.port}") as client:
        head = f"POST http://a.example:{server.port}/ HTTP/1.1\r\nHost: a.example:{server.port}\r\n"
        answer = await client.ask(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n")
        old = await client.ask(f"GET http://a.example:{server.port}/ HTTP/1.0\r\n\r\n".encode())
    assert answer.endswith(b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    assert old.endswith(b"\r\n\r\nabc")
    assert b"2\r\nhi\r\n0\r\n\r\n" in server.received


async def test_interim_response_reaches_a_client_that_waits_for_it() -> None:
    answer = b"HTTP/1.1 100 Continue\r\n\r\n" + b"HTTP/1.1 204 No Content\r\n\r\n"
    async with origin(answer) as server, proxy(f"a.example:{server.port}") as client:
        head = f"POST http://a.example:{server.port}/ HTTP/1.1\r\nHost: a.example:{server.port}\r\n"
        got = await client.ask(head.encode() + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100000,
    ],
)
async def test_answer_that_cannot_be_read_becomes_a_502(answer: bytes) -> None:
    async with (
        origin(answer + b"") as server,
        proxy(
            f"a.example:{server.port}", limits=EgressLimits(idle_timeout_s=DEADLINE_S if answer else 1)
        ) as client,
    ):
        got = await client.get(f"a.example:{server.port}")
    assert got.startswith(b"HTTP/1.1 502 " if answer else b"HTTP/1.1 504 ")


async def test_a_truncated_answer_does_not_look_complete() -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(cut, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with proxy(f"a.example:{port}") as client:
            reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
            writer.write(f"GET http://a.example:{port}/ HTTP/1.0\r\n\r\n".encode())
            with pytest.raises(ConnectionResetError):
                await asyncio.wait_for(reader.read(), DEADLINE_S)
            writer.transport.abort()


async def test_host_that_does_not_answer_or_exist_is_a_502() -> None:
    async def nowhere(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with listening() as closed:
        port = closed.getsockname()[1]
    async with proxy(f"a.example:{port}") as client:
        refused = await client.get(f"a.example:{port}")
        assert client.decided == [("GET", "a.example", port, True)]
    async with proxy("a.example", resolve=nowhere) as client:
        missing = await client.get("a.example")
        assert client.decided == [("GET", "a.example", 80, False)]
    assert refused.startswith(b"HTTP/1.1 502 ") and b"Could not connect" in refused
    assert missing.startswith(b"HTTP/1.1 502 ") and b"'a.example' cannot be resolved" in missing


async def test_next_address_is_tried_when_the_first_does_not_answer() -> None:
    async with (
        origin(host="127.0.0.2") as server,
        proxy(f"a.example:{server.port}", resolve=resolving("127.0.0.1", "127.0.0.2")) as client,
    ):
        assert (await client.get(f"a.example:{server.port}")).endswith(b"hello")
        assert (await client.over())[0].address == "127.0.0.2"


async def test_connections_beyond_the_limit_wait_their_turn() -> None:
    async with (
        origin() as server,
        proxy(f"a.example:{server.port}", limits=EgressLimits(connections=2)) as client,
    ):
        holders = [await asyncio.open_connection("127.0.0.1", client.port) for _ in range(2)]
        waiting = asyncio.create_task(client.get(f"a.example:{server.port}"))
        await asyncio.sleep(0.2)
        assert (client.egress.connections, waiting.done()) == (2, False)
        holders[0][1].close()
        assert (await waiting).endswith(b"hello")
        holders[1][1].close()


async def test_half_closed_tunnel_still_brings_the_answer() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"all of it: " + await reader.read())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with proxy(f"a.example:{port}") as client:
            reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
            writer.write(
                f"CONNECT a.example:{port} HTTP/1.1\r\nHost: a.example:{port}\r\n\r\nearly ".encode()
            )
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
            writer.write(b"and late")
            writer.write_eof()
            assert await asyncio.wait_for(reader.read(), DEADLINE_S) == b"all of it: early and late"
            writer.close()
            ended = (await client.over())[0]
    assert (ended.bytes_up, ended.bytes_down, ended.allowed) == (14, 25, True)


@pytest.mark.parametrize("direction", ["up", "down"])
async def test_side_that_does_not_read_stops_the_side_that_sends(direction: str) -> None:
    sent = 0
    stalled = asyncio.Event()

    async def pour(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while sent < 256 * 1024 * 1024:
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await (pour(writer) if direction == "down" else stalled.wait())
        except OSError:
            pass
        finally:
            writer.transport.abort()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, limit=1024) as server:
        port = server.sockets[0].getsockname()[1]
        async with proxy(f"a.example:{port}", limits=EgressLimits(idle_timeout_s=1)) as client:
            reader, writer = await asyncio.open_connection("127.0.0.1", client.port, limit=1024)
            writer.write(f"CONNECT a.example:{port} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            await reader.readuntil(b"\r\n\r\n")
            try:
                if direction == "up":
                    await pour(writer)
            except OSError:
                pass  # the idle limit cut it
            ended = (await client.over())[0]
            writer.transport.abort()
        stalled.set()
    assert "No byte was transferred for 1 s" in ended.reason
    assert sent < 32 * 1024 * 1024  # what kernels hold on the way


async def open_descriptors() -> int:
    return len(await asyncio.to_thread(os.listdir, "/proc/self/fd"))


def threads() -> int:
    return sum(not thread.name.startswith("asyncio_") for thread in threading.enumerate())


async def test_closing_cuts_open_connections_and_leaves_nothing() -> None:
    before = await open_descriptors(), threads()
    async with (
        origin() as server,
        proxy(f"a.example:{server.port}") as client,
    ):
        sides = [await asyncio.open_connection("127.0.0.1", client.port) for _ in range(5)]
        for _, writer in sides[1:]:
            writer.write(f"CONNECT a.example:{server.port} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        for reader, _ in sides[1:]:
            await reader.readuntil(b"\r\n\r\n")
    for reader, writer in sides:
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), DEADLINE_S) == b""
        writer.transport.abort()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", client.port)
    assert len(await client.over(4)) == 4
    async with asyncio.timeout(DEADLINE_S):  # the origin closes its side in a moment
        while await open_descriptors() > before[0] or threads() > before[1]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_socket_that_does_not_listen_is_refused_and_closed() -> None:
    wrong = socket.socket()
    with pytest.raises(Unavailable, match="not a listening TCP socket"):
        async with serve_egress(wrong, [], print):
            pass
    assert wrong.fileno() == -1


async def test_the_rate_of_attempts_is_limited() -> None:
    async with proxy(limits=EgressLimits(attempts_per_s=20)) as client:
        began = time.monotonic()
        asking = [asyncio.create_task(client.get("b.example")) for _ in range(200)]
        while len(client.attempts) < 60:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        made, passed_s = len(client.attempts), time.monotonic() - began
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        assert made <= 40 + 20 * passed_s + 1  # a burst of two seconds, then so many in each


# --- checks inside the tunnel ---


def client_hello(name: str | None) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


HELLO_A = client_hello("a.example")


def in_records(hello: bytes, size: int) -> bytes:
    body = hello[5:]
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(hello[:3] + len(part).to_bytes(2) + part for part in parts)


def test_server_name_is_read_however_the_hello_is_split() -> None:
    hello = client_hello("A.Example")
    assert server_name(hello) == "a.example"
    assert server_name(in_records(hello, 60) + b"more") == "a.example"
    assert server_name(client_hello(None)) is None
    for cut in range(len(hello)):
        with pytest.raises(Incomplete):
            server_name(hello[:cut])
    with pytest.raises(BadRequest, match="records"):
        server_name(in_records(hello, 1))


@given(st.data())
def test_damaged_hello_is_read_or_refused_and_never_crashes(data: st.DataObject) -> None:
    hello = bytearray(HELLO_A)
    for _ in range(data.draw(st.integers(1, 4))):
        hello[data.draw(st.integers(0, len(hello) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BadRequest, Incomplete):
        server_name(bytes(hello))


async def side_pair() -> tuple[Side, socket.socket]:
    ours, theirs = socket.socketpair()
    theirs.settimeout(DEADLINE_S)
    return await open_side(ours), theirs


@pytest.mark.parametrize(
    ("first", "tls_only", "passes"),
    [
        (client_hello("a.example"), True, True),
        (client_hello("b.example"), True, False),
        (client_hello(None), True, False),
        (b"GET / HTTP/1.1\r\n\r\n", True, False),
        (b"SSH-2.0-x\r\n", False, True),
        (client_hello("b.example"), False, False),
        (b"\x80\x2e\x01\x03\x01", True, False),  # a hello of SSL 2
    ],
)
async def test_a_tunnel_relays_only_traffic_for_its_host(first: bytes, tls_only: bool, passes: bool) -> None:
    client, jail = await side_pair()
    upstream, world = await side_pair()
    tunnel = asyncio.create_task(run_tunnel(client, upstream, "a.example", first=first, tls_only=tls_only))
    if passes:
        assert await asyncio.to_thread(world.recv, 65536) == first
        jail.close()
        world.close()
        await asyncio.wait({tunnel}, timeout=DEADLINE_S)
    else:
        with pytest.raises(Denied, match=r"a\.example"):
            await tunnel
        assert upstream.sent_bytes == 0
    assert tunnel.done()
    for side in (client, upstream):
        await side.close()
    jail.close()
    world.close()


# --- real clients ---


def test_environment_is_the_same_for_all_tools() -> None:
    proxied = environment(3128)
    assert set(proxied.values()) == {"http://127.0.0.1:3128", "localhost,127.0.0.1,::1", "1"}
    assert all(proxied[name] == proxied[name.upper()] for name in ("http_proxy", "https_proxy", "no_proxy"))


def through(client: Proxy) -> dict[str, str]:
    return client.egress.environment()


async def test_urllib_works_over_http_and_https(tmp_path: Path) -> None:
    trusted, tls = certificate(tmp_path, "a.example")
    script = "import sys, urllib.request as u; print([u.urlopen(x, timeout=10).read() for x in sys.argv[1:]])"
    async with (
        origin() as plain,
        origin(tls=tls) as secure,
        proxy(f"a.example:{plain.port}", f"a.example:{secure.port}") as client,
    ):
        urls = f"http://a.example:{plain.port}/", f"https://a.example:{secure.port}/"
        env = {**through(client), "SSL_CERT_FILE": str(trusted)}
        code, output = await run(sys.executable, "-c", script, *urls, env=env, cwd=tmp_path)
    assert (code, output) == (0, "[b'hello', b'hello']\n")


async def test_curl_works_and_shows_the_refusal(tmp_path: Path) -> None:
    trusted, tls = certificate(tmp_path, "a.example")
    async with (
        origin() as plain,
        origin(tls=tls) as secure,
        proxy(f"a.example:{plain.port}", f"a.example:{secure.port}") as client,
    ):
        urls = f"http://a.example:{plain.port}/", f"https://a.example:{secure.port}/"
        works = await run("curl", "-sS", "--cacert", trusted, *urls, env=through(client), cwd=tmp_path)
        posts = await run("curl", "-sS", "-d", "x=1", urls[0], env=through(client), cwd=tmp_path)
        refused = await run("curl", "-sS", "http://b.example/", env=through(client), cwd=tmp_path)
        tunnel = await run("curl", "-v", "https://b.example/", env=through(client), cwd=tmp_path)
    assert (works, posts) == ((0, "hellohello"), (0, "hello"))
    assert "start with: --net b.example" in refused[1]
    assert tunnel[0] == 56 and "--net b.example" in tunnel[1]


def wheel(path: Path) -> None:
    info = "demo-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("demo.py", "")
        made.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
        made.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr(f"{info}/RECORD", "")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_pip_downloads_from_an_index(tmp_path: Path, scheme: str) -> None:
    index = tmp_path / "www" / "simple" / "demo"
    index.mkdir(parents=True)
    wheel(index / "demo-1.0-py3-none-any.whl")
    trusted, tls = certificate(tmp_path, "pypi.example")
    with files(tmp_path / "www", tls=tls if scheme == "https" else None) as port:
        async with proxy(f"pypi.example:{port}") as client:
            pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--dest", "got"]
            url = f"{scheme}://pypi.example:{port}/simple"
            options = ["--index-url", url, "--trusted-host", "pypi.example", "--cert", str(trusted)]
            env = {**through(client), "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
            code, output = await run(*pip, *options, "demo", env=env, cwd=tmp_path)
            evil = f"{scheme}://evil.example:{port}/demo-2.0-py3-none-any.whl"
            _, refused = await run(*pip, "--retries=0", evil, env=env, cwd=tmp_path)
    assert code == 0, output
    assert [path.name for path in (tmp_path / "got").iterdir()] == ["demo-1.0-py3-none-any.whl"]
    assert "--net evil.example" in refused


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_git_clones_and_pushes(tmp_path: Path, scheme: str) -> None:
    trusted, tls = certificate(tmp_path, "git.example")
    (tmp_path / "www").mkdir()
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t.example", "-c", "init.defaultBranch=main"]
    await run(*git, "init", "-q", "--bare", "www/a.git", env={}, cwd=tmp_path)
    await run(*git, "-C", "www/a.git", "config", "http.receivepack", "true", env={}, cwd=tmp_path)
    with files(tmp_path / "www", tls=tls if scheme == "https" else None) as port:
        async with proxy(f"git.example:{port}") as client:
            env = {**through(client), "GIT_SSL_CAINFO": str(trusted), "GIT_TERMINAL_PROMPT": "0"}
            url = f"{scheme}://git.example:{port}/a.git"
            for step in (
                ["clone", "-q", url, "one"],
                ["-C", "one", "commit", "-q", "--allow-empty", "-m", "first"],
                ["-C", "one", "push", "-q", "origin", "HEAD:main"],
                ["clone", "-q", "-b", "main", url, "two"],
            ):
                code, output = await run(*git, *step, env=env, cwd=tmp_path)
                assert code == 0, (step, output)
            _, log = await run("git", "-C", "two", "log", "--format=%s", env={}, cwd=tmp_path)
    assert log == "first\n"


async def test_npm_fetches_a_package(tmp_path: Path) -> None:
    www = tmp_path / "www"
    www.mkdir()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        content = json.dumps({"name": "demo", "version": "1.0.0"}).encode()
        member = tarfile.TarInfo("package/package.json")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    (www / "demo.tgz").write_bytes(packed.getvalue())
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(packed.getvalue()).digest()).decode()
    with files(www) as port:
        registry = f"http://npm.example:{port}/"
        dist = {"tarball": f"{registry}demo.tgz", "integrity": integrity}
        version = {"name": "demo", "version": "1.0.0", "dist": dist}
        document = {"name": "demo", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
        (www / "demo").write_text(json.dumps(document))
        async with proxy(f"npm.example:{port}") as client:
            env = {**through(client), "npm_config_update_notifier": "false", "npm_config_fetch_retries": "0"}
            code, output = await run(*npm(), "pack", "demo", "--registry", registry, env=env, cwd=tmp_path)
    assert code == 0, output
    assert (tmp_path / "demo-1.0.0.tgz").read_bytes() == packed.getvalue()


@pytest.mark.skipif(not shutil.which("apt-get"), reason="not a Debian or Ubuntu machine")
async def test_on_debian_and_ubuntu_apt_fetches_a_file(tmp_path: Path) -> None:
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "Release").write_text("Suite: demo\n")
    with files(tmp_path / "www") as port:
        async with proxy(f"deb.example:{port}") as client:
            helper = ["/usr/lib/apt/apt-helper", "-o", "APT::Sandbox::User=root", "download-file"]
            url = f"http://deb.example:{port}/Release"
            code, output = await run(*helper, url, "got", env=through(client), cwd=tmp_path)
    assert code == 0, output
    assert (tmp_path / "got").read_text() == "Suite: demo\n"


async def test_requests_for_one_name_at_the_same_time_share_a_lookup() -> None:
    lookups = []

    class Counting(ThreadPoolExecutor):
        def submit(self, *words: Any, **more: Any) -> Any:
            lookups.append(words)
            return super().submit(*words, **more)

    with Counting(1) as threads:
        resolve = resolver(threads)
        found = await asyncio.gather(*(resolve("localhost", port) for port in range(1, 40)))
        assert len(lookups) == 1
        assert all("127.0.0.1" in each or "::1" in each for each in found)
        await resolve("localhost", 1)
        assert len(lookups) == 2
