"""Ways round the egress proxy, each tried with its guard on and, to show that the guard
matters, with it off.
"""

import asyncio
import contextlib
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hutch.jail.egress import EgressLimits

from ..jail.simulated_network import HELLO, Proxy, certificate, listening, origin, proxy, resolving, trickle
from .waiting import TIMEOUT_S, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def status(answer: bytes) -> int:
    return int(answer.split(b" ")[1]) if answer else 0


async def directly(port: int, data: bytes) -> bytes:
    """The server's own answer, without a proxy in between."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    writer.write_eof()
    async with asyncio.timeout(TIMEOUT_S):
        got = await reader.read()
    writer.transport.abort()
    return got


# --- addresses ---


@pytest.mark.parametrize(
    "spelling", ["0x7f.1", "0x7f000001", "2130706433", "127.1", "0177.0.0.1", "017700000001", "127.0.0.01"]
)
async def test_odd_spellings_of_loopback_are_not_read_as_addresses(spelling: str) -> None:
    async with origin() as victim, proxy(f"127.0.0.1:{victim.port}") as client:  # listed and exempt
        assert status(await client.get(f"{spelling}:{victim.port}")) == 400
        assert [attempt.allowed for attempt in client.attempts] == [False]
        assert victim.connections == 0
        # Control: the plain spelling is served, and the C library takes the odd one for the same.
        assert status(await client.get(f"127.0.0.1:{victim.port}")) == 200
        found = socket.getaddrinfo(spelling, victim.port, type=socket.SOCK_STREAM)
        assert found[0][4][0] == "127.0.0.1"


@pytest.mark.parametrize("literal", ["127.0.0.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"])
async def test_listed_loopback_literal_is_still_refused_unless_exempt(literal: str) -> None:
    async with origin() as victim:
        authority = f"{literal}:{victim.port}"
        async with proxy(authority, also=()) as client:
            assert status(await client.get(authority)) == 403
        assert victim.connections == 0
        async with proxy(authority, also=["127.0.0.0/8"]) as client:  # guard off
            assert status(await client.get(authority)) == 200


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "::1",
        "169.254.169.254",
        "10.0.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "0.0.0.0",
        "fd00::1",
        "fe80::1",
        "224.0.0.1",
        "::ffff:127.0.0.1",
        "2002:7f00:1::",
        "64:ff9b::7f00:1",
        "2001:0:7f00:1::",
    ],
)
async def test_allowed_name_that_resolves_inside_is_refused(address: str) -> None:
    async with proxy("a.example", also=(), resolve=resolving(address)) as client:
        answer = await client.ask(b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n")
    assert status(answer) == 403
    assert [attempt.allowed for attempt in client.attempts] == [False]
    assert f"resolves to {ip_address(address)}, a " in client.attempts[0].reason


async def test_name_resolving_to_loopback_reaches_it_when_the_guard_is_off() -> None:
    async with origin() as victim:
        authority = f"a.example:{victim.port}"
        async with proxy(authority, also=()) as client:
            assert status(await client.get(authority)) == 403
        assert victim.connections == 0
        async with proxy(authority) as client:
            assert status(await client.get(authority)) == 200
        assert victim.connections == 1


async def test_rebinding_between_check_and_connect_finds_no_second_lookup() -> None:
    client_parser: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        client_parser.append(host)
        return ["127.0.0.2"] if len(client_parser) == 1 else ["127.0.0.1"]

    async with origin(host="127.0.0.2") as decoy, origin(port=decoy.port) as victim:
        authority = f"a.example:{decoy.port}"
        async with proxy(authority, also=["127.0.0.2/32"], resolve=rebinding) as client:
            assert status(await client.get(authority)) == 200
            assert (client_parser, decoy.connections, victim.connections) == (["a.example"], 1, 0)
            # The next request asks anew, sees the new address, and is refused.
            assert status(await client.get(authority)) == 403
        assert victim.connections == 0
        # Guard off: resolving a second time to connect would have gone to the victim.
        _reader, writer = await asyncio.open_connection((await rebinding("a.example", 0))[0], victim.port)
        writer.transport.abort()
        await until(lambda: victim.connections == 1)


async def test_inside_address_among_public_ones_is_never_tried() -> None:
    async with origin() as victim, origin(host="127.0.0.2", port=victim.port) as public:
        authority = f"a.example:{victim.port}"
        both = resolving("127.0.0.1", "127.0.0.2")
        async with proxy(authority, also=["127.0.0.2/32"], resolve=both) as client:
            assert status(await client.get(authority)) == 200
        assert (victim.connections, public.connections) == (0, 1)
        async with proxy(authority, resolve=both) as client:  # guard off
            assert status(await client.get(authority)) == 200
        assert victim.connections == 1


OWN_ADDRESS = """
import subprocess
from ipaddress import ip_address
from hutch.jail.egress.blocked_addresses import refusal
for command in ("ip link set lo up", "ip route add default dev lo"):
    subprocess.run(command.split(), check=True)
print(refusal(ip_address("9.9.9.9")), refusal(ip_address("2620:fe::9")))
for command in ("ip address add 9.9.9.9/32 dev lo", "ip -6 address add 2620:fe::9/128 dev lo nodad"):
    subprocess.run(command.split(), check=True)
print(*(refusal(ip_address(own)) for own in ("9.9.9.9", "2620:fe::9", "64:ff9b::909:909")))
"""


async def test_public_address_of_the_host_itself_is_refused(tmp_path: Path) -> None:
    """A service bound to all interfaces is reachable by the host's public address as well."""
    done = await asyncio.to_thread(
        subprocess.run,
        ["unshare", "-rn", sys.executable, "-c", OWN_ADDRESS],
        capture_output=True,
        timeout=TIMEOUT_S,
    )
    # The first line is the control: the same addresses, when they are not the host's.
    assert done.stdout.decode() == "None None\nhost's own host's own host's own\n", done.stderr


# --- what is asked for ---


async def refused_whole(client: Proxy, request: bytes) -> bool:
    answer = await client.ask(request)
    return status(answer) in (400, 403, 501) and not any(attempt.allowed for attempt in client.attempts)


async def test_user_in_the_url_does_not_pass_for_the_host() -> None:
    async with origin() as victim, proxy("a.example") as client:
        for url in (
            f"http://a.example@evil.example:{victim.port}/",
            f"http://a.example:80@evil.example:{victim.port}/",
            f"http://evil.example:{victim.port}\\@a.example/",
            f"http://evil.example:{victim.port}#@a.example/",
            f"http://evil.example:{victim.port}?@a.example/",
            f"http://evil.example:{victim.port}%2f@a.example/",
        ):
            assert await refused_whole(client, f"GET {url} HTTP/1.1\r\nHost: a.example\r\n\r\n".encode()), url
    assert victim.connections == 0
    # Guard off: a reader that searches for the allowed name at the start is deceived.
    url = f"http://a.example@evil.example:{victim.port}/"
    assert url.startswith("http://a.example") and urlsplit(url).hostname == "evil.example"


@pytest.mark.parametrize(
    "line",
    [
        "GET / HTTP/1.1",
        "GET //evil.example/ HTTP/1.1",
        "GET https://a.example/ HTTP/1.1",
        "GET ftp://a.example/ HTTP/1.1",
        "GET http:///x HTTP/1.1",
        "GET http://a.example:/ HTTP/1.1",
        "GET http://a.example:080/ HTTP/1.1",
        "GET http://a.example:99999/ HTTP/1.1",
        "GET http://a.example:80:81/ HTTP/1.1",
        "GET http://a.example%00.evil.example/ HTTP/1.1",
        "GET http://a.example\0.evil.example/ HTTP/1.1",
        "GET http://a.example\t/ HTTP/1.1",
        "GET http://[a.example]/ HTTP/1.1",
        "GET http://[::1%25lo]/ HTTP/1.1",
        "GET http://a.example/",
        "GET http://a.example/ HTTP/0.9",
        "GET http://a.example/ HTTP/1.9",
        "GET http://a.example/ HTTP/2.0",
        "GET  http://a.example/ HTTP/1.1",
        "CONNECT a.example HTTP/1.1",
        "CONNECT a.example:443/x HTTP/1.1",
        "CONNECT http://a.example:443 HTTP/1.1",
        "CONNECT a.example:0443 HTTP/1.1",
        "CONNECT u@a.example:443 HTTP/1.1",
        "CONNECT :443 HTTP/1.1",
        "CONNECT *:443 HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "PRI * HTTP/2.0",
    ],
)
async def test_request_that_can_be_read_two_ways_is_refused(line: str) -> None:
    async with origin() as victim, proxy("a.example", f"a.example:{victim.port}") as client:
        assert await refused_whole(client, f"{line}\r\nHost: a.example\r\n\r\n".encode())
        assert len(client.attempts) == 1
    async with (
        origin() as victim,
        proxy(f"a.example:{victim.port}") as client,
    ):  # control: the plain form works
        assert status(await client.get(f"a.example:{victim.port}")) == 200


async def test_host_header_cannot_name_another_host_than_the_url() -> None:
    async with origin() as server, proxy(f"a.example:{server.port}") as client:
        url = f"http://a.example:{server.port}/"
        for headers in (
            "Host: evil.example\r\n",
            f"Host: evil.example:{server.port}\r\n",
            "Host: a.example\r\n",  # port 80 is not the port of the URL
            f"Host: a.example:{server.port}\r\nHost: evil.example\r\n",
            f"Host: a.example:{server.port}, evil.example\r\n",
            f"Host : evil.example\r\nHost: a.example:{server.port}\r\n",
            "Host:\r\n",
            "",
        ):
            assert await refused_whole(client, f"GET {url} HTTP/1.1\r\n{headers}\r\n".encode()), headers
    assert server.connections == 0
    async with origin() as server:  # guard off: the server gets whatever the client sends
        await directly(server.port, b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        assert b"evil.example" in server.received


async def test_line_breaks_in_a_header_do_not_become_headers() -> None:
    tricks = [b"X: a\rHost: evil.example", b"X: a\0b", b"X: a\r\r\nHost: evil.example", b"X\r: a", b": evil"]
    async with origin() as server, proxy(f"a.example:{server.port}") as client:
        head = f"GET http://a.example:{server.port}/ HTTP/1.1\r\nHost: a.example:{server.port}\r\n".encode()
        for trick in tricks:
            assert await refused_whole(client, head + trick + b"\r\n\r\n"), trick
        # A folded line is one value, and is written as one.
        assert status(await client.ask(head + b"X: a\r\n Host: evil.example\r\n\r\n")) == 200
        assert b"x: a Host: evil.example\r\n" in server.received.lower().replace(b"host: e", b"Host: e")
    async with origin() as server:  # guard off: the bytes arrive as they are
        await directly(server.port, b"GET / HTTP/1.1\r\nHost: a\r\n" + tricks[0] + b"\r\n\r\n")
        assert tricks[0] in server.received


# --- more than one request ---


async def test_second_request_on_a_connection_is_not_served() -> None:
    async with origin() as server, proxy(f"a.example:{server.port}") as client:
        first = f"GET http://a.example:{server.port}/1 HTTP/1.1\r\nHost: a.example:{server.port}\r\n\r\n"
        second = f"GET http://evil.example:{server.port}/2 HTTP/1.1\r\nHost: evil.example\r\n\r\n"
        answer = await client.ask((first + second).encode())
        await client.over()
        assert answer.count(b"HTTP/1.1") == 1 and b"\r\nconnection: close\r\n" in answer.lower()
        assert b"evil" not in server.received and b"/2" not in server.received
        assert client.decided == [("GET", "a.example", server.port, True)]
    async with origin() as server:  # guard off: the server would have answered both
        got = await directly(server.port, (first + second).encode())
        assert got == HELLO * 2


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 60\r\n",
        b"Content-Length: 4\r\nContent-Length: 60\r\n",
        b"Content-Length: 4, 60\r\n",
        b"Content-Length: +4\r\n",
        b"Content-Length: 0x4\r\n",
        b"Content-Length: -1\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding:\x0bchunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    ],
)
async def test_body_with_two_lengths_smuggles_nothing(framing: bytes) -> None:
    smuggled = b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    async with origin() as server, proxy(f"a.example:{server.port}") as client:
        where = f"a.example:{server.port}".encode()
        head = b"POST http://" + where + b"/ HTTP/1.1\r\nHost: " + where + b"\r\n" + framing + b"\r\n"
        assert await refused_whole(client, head + smuggled)
        assert server.connections == 0
        # A well-framed body ends at its stated length: the rest is not passed on.
        proper = head.replace(framing, b"Transfer-Encoding: chunked\r\n")
        assert status(await client.ask(proper + smuggled)) == 200
        assert b"smuggled" not in server.received
    async with origin() as server:  # guard off: the server sees a second request
        assert (await directly(server.port, head + smuggled)).count(HELLO) >= 2


async def test_connection_header_cannot_take_the_framing_away() -> None:
    async with origin() as server, proxy(f"a.example:{server.port}") as client:
        where = f"a.example:{server.port}"
        head = f"POST http://{where}/ HTTP/1.1\r\nHost: {where}\r\nConnection: content-length, host\r\n"
        assert status(await client.ask(f"{head}Content-Length: 3\r\n\r\nabc".encode())) == 200
        assert b"content-length: 3\r\n" in server.received.lower()
        assert f"host: {where}\r\n".encode() in server.received


# --- tunnels ---


async def handshake(client: Proxy, host: str, port: int, sni: str | None) -> str:
    """Start TLS through a tunnel to `host`, but with the server name `sni`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    try:
        writer.write(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_hostname=sni)
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                try:
                    tls.do_handshake()
                    return "done"
                except ssl.SSLWantReadError:
                    writer.write(outgoing.read())
                    if not (data := await reader.read(65536)):
                        return "closed"
                    incoming.write(data)
    except ssl.SSLError as error:
        return error.reason or "error"
    finally:
        writer.transport.abort()


async def test_tunnel_to_an_allowed_host_cannot_carry_tls_for_another(tmp_path: Path) -> None:
    _, tls = certificate(tmp_path, "a.example", "evil.example")
    async with origin(tls=tls) as server:
        async with proxy(f"a.example:{server.port}") as client:
            assert "UNRECOGNIZED_NAME" in await handshake(client, "a.example", server.port, "evil.example")
            assert "UNRECOGNIZED_NAME" in await handshake(client, "a.example", server.port, None)
            ended = await client.over(2)
            assert [(attempt.allowed, attempt.bytes_up) for attempt in ended] == [(False, 0), (False, 0)]
            assert await handshake(client, "a.example", server.port, "a.example") == "done"
        # Guard off (the other host allowed too): that server does answer to the other name.
        async with proxy(f"a.example:{server.port}", f"evil.example:{server.port}") as client:
            assert await handshake(client, "evil.example", server.port, "evil.example") == "done"


# --- wearing the proxy out ---


async def test_a_slow_head_releases_its_connection_in_time() -> None:
    async def second_is_served(head_timeout_s: float, *, within_s: float) -> bool:
        limits = EgressLimits(connections=1, head_timeout_s=head_timeout_s)
        async with origin() as server, proxy(f"a.example:{server.port}", limits=limits) as client:
            _, writer = await asyncio.open_connection("127.0.0.1", client.port)
            slow = asyncio.create_task(trickle(writer, b"GET http://a.example/" + b"x" * 100, every_s=0.05))
            await asyncio.sleep(0.1)
            try:
                answer = await client.ask(
                    f"GET http://a.example:{server.port}/ HTTP/1.0\r\n\r\n".encode(), within_s=within_s
                )
                return status(answer) == 200
            except TimeoutError:
                return False
            finally:
                slow.cancel()
                await asyncio.gather(slow, return_exceptions=True)
                writer.transport.abort()

    assert await second_is_served(head_timeout_s=1, within_s=TIMEOUT_S)
    assert not await second_is_served(head_timeout_s=2 * TIMEOUT_S, within_s=2)  # guard off


async def test_endless_head_is_cut_off() -> None:
    async with origin() as server, proxy(f"a.example:{server.port}") as client:
        head = (
            f"GET http://a.example:{server.port}/ HTTP/1.1\r\nHost: a.example:{server.port}\r\nX: ".encode()
        )
        assert status(await client.ask(head + b"x" * 100_000)) == 431
        assert status(await client.ask(b"x" * 100_000)) == 431
        assert status(await client.ask(head + b"x" * 50_000 + b"\r\n\r\n")) == 200  # below the limit
        assert [attempt.allowed for attempt in await client.over(3)] == [False, False, True]
    wide = EgressLimits(head_bytes=1_000_000)  # guard off
    async with origin() as server, proxy(f"a.example:{server.port}", limits=wide) as client:
        head = (
            f"GET http://a.example:{server.port}/ HTTP/1.1\r\nHost: a.example:{server.port}\r\nX: ".encode()
        )
        assert status(await client.ask(head + b"x" * 100_000 + b"\r\n\r\n")) == 200


async def test_silent_tunnels_do_not_hold_their_places_for_ever() -> None:
    async def third_is_served(idle_timeout_s: float, *, within_s: float) -> bool:
        limits = EgressLimits(connections=2, idle_timeout_s=idle_timeout_s)
        async with origin() as server, proxy(f"a.example:{server.port}", limits=limits) as client:
            tunnels = [await asyncio.open_connection("127.0.0.1", client.port) for _ in range(2)]
            for _, writer in tunnels:
                writer.write(f"CONNECT a.example:{server.port} HTTP/1.0\r\n\r\n".encode())
            request = f"GET http://a.example:{server.port}/ HTTP/1.0\r\n\r\n".encode()
            try:
                return status(await client.ask(request, within_s=within_s)) == 200
            except TimeoutError:
                return False
            finally:
                for _, writer in tunnels:
                    writer.transport.abort()

    assert await third_is_served(idle_timeout_s=1, within_s=TIMEOUT_S)
    assert not await third_is_served(idle_timeout_s=2 * TIMEOUT_S, within_s=2)  # guard off


async def test_jail_that_keeps_the_listening_socket_cannot_hang_the_host() -> None:
    listener = listening()
    passed = listener.dup()  # the warden is not trusted to close its copy
    longest = 0.0

    async def heartbeat() -> None:
        nonlocal longest
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(0.01)
            longest = max(longest, loop.time() - before)

    stop = threading.Event()

    def steal() -> None:
        """Make it blocking, and race for every connection that the host accepts."""
        while not stop.is_set():
            passed.setblocking(False)
            with contextlib.suppress(OSError):
                passed.accept()[0].close()
            passed.setblocking(True)

    thief = threading.Thread(target=steal, daemon=True)
    # A blocking accept waits for a connection: this one, so that the test ends.
    rescue = threading.Timer(TIMEOUT_S, socket.create_connection, [listener.getsockname()])
    rescue.daemon = True
    rescue.start()
    async with proxy("a.example", listener=listener) as client:
        beat = asyncio.create_task(heartbeat())
        thief.start()
        for _ in range(50):
            with contextlib.suppress(OSError, TimeoutError):
                await client.ask(b"GET http://evil.example/ HTTP/1.0\r\n\r\n", within_s=0.2)
        async with asyncio.timeout(TIMEOUT_S):
            await client.egress.close()
        beat.cancel()
    rescue.cancel()
    stop.set()
    thief.join(TIMEOUT_S)
    passed.close()
    assert longest < TIMEOUT_S / 2

    # Guard off: accept on a socket that we made non-blocking does block once the jail says so.
    naive = listening()
    naive.setblocking(False)
    passed = naive.dup()
    passed.setblocking(True)
    hanging = threading.Thread(target=accept, args=[naive], daemon=True)
    hanging.start()
    hanging.join(0.3)
    assert hanging.is_alive()
    naive.shutdown(socket.SHUT_RDWR)
    hanging.join(TIMEOUT_S)
    naive.close()
    passed.close()


def accept(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):
        listener.accept()[0].close()


async def test_jail_that_shuts_the_listening_socket_down_only_hurts_itself() -> None:
    listener = listening()
    passed = listener.dup()
    async with proxy("a.example", listener=listener) as client:
        assert status(await client.get("evil.example")) == 403
        passed.shutdown(socket.SHUT_RDWR)
        with pytest.raises(ConnectionRefusedError):
            await client.get("evil.example")
    passed.close()
