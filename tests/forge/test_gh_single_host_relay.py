"""gh connects to one host only, over TLS, whatever redirects it gets."""

import http.server
import os
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hutch.domain.errors import HutchError, Unavailable
from hutch.forge.gh_command import Gh, RetryPolicy
from hutch.forge.gh_single_host_relay import Relay

pytestmark = pytest.mark.anyio

TOKEN = "tok_0123456789"


@dataclass
class Seen:
    """The requests that a server got, and the size of its responses."""

    port: int = 0
    leads_to: str = ""
    size: int = 0
    requests: list[tuple[str, str]] = field(default_factory=list)  # path, Authorization
    sent: int = 0


@contextmanager
def answering(certificate: Path | None = None) -> Iterator[Seen]:
    """A server, over TLS if it has a certificate; where it leads to and how much it says can be set."""
    seen = Seen()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.requests.append((self.path, self.headers.get("Authorization", "")))
            if seen.leads_to and "moved" not in self.path:
                self.send_response(302)
                self.send_header("Location", seen.leads_to)
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(b'{"login": "ada"}')
            try:
                while seen.sent < seen.size:
                    seen.sent += self.wfile.write(b" " * (1 << 20))
            except OSError:
                return

        def log_message(self, *args: object) -> None:
            """Not on the tests' standard error."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    seen.port = server.server_address[1]
    with _running(server):
        yield seen


@contextmanager
def _running(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def proxying() -> Iterator[tuple[int, list[str]]]:
    """A proxy that takes one line of a request, connects, and copies."""
    asked: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            head = []
            while (line := self.rfile.readline().decode().strip()) != "":
                head.append(line)
            asked.extend(each for each in head if not each.startswith("Host"))
            host, _, port = head[0].split(" ")[1].rpartition(":")
            with socket.create_connection((host, int(port))) as there:
                self.connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
                back = threading.Thread(target=_copy, args=(there, self.connection))
                back.start()
                _copy(self.connection, there)
                back.join()

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with _running(server):
        yield server.server_address[1], asked


def _copy(source: Any, target: Any) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(1)
    except OSError:
        return


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of localhost, by itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "localhost.pem"
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(*plain))
    return path


def gh_for(port: int, certificate: Path | None, **environ: str) -> Gh:
    async def token_of() -> str:
        return TOKEN

    known = {"SSL_CERT_FILE": str(certificate)} if certificate else {}
    retry_policy = RetryPolicy(max_wait_s=1, first_delay_s=0.01)
    return Gh(f"localhost:{port}", token_of, {"PATH": os.defpath, **known, **environ}, "", retry_policy)


async def test_the_host_is_reached_over_tls_and_shown_the_token(certificate: Path) -> None:
    with answering(certificate) as here:
        answer = await gh_for(here.port, certificate).api("GET", "user")
        assert answer.json() == {"login": "ada"}
        assert here.requests == [("/api/v3/user", f"token {TOKEN}")]
        with pytest.raises(Unavailable, match="certificate"):  # by nobody that is trusted
            await gh_for(here.port, None).api("GET", "user")
        assert len(here.requests) == 1


async def test_a_redirect_is_followed_on_the_same_host_and_to_no_other(certificate: Path) -> None:
    with answering(certificate) as here, answering() as plain, answering(certificate) as other:
        here.leads_to = f"https://localhost:{here.port}/api/v3/moved"
        assert (await gh_for(here.port, certificate).api("GET", "user")).status == 200
        assert [path for path, _ in here.requests] == ["/api/v3/user", "/api/v3/moved"]
        for elsewhere in (f"http://127.0.0.1:{plain.port}", f"https://localhost:{other.port}"):
            here.leads_to = f"{elsewhere}/moved"
            with pytest.raises(Unavailable, match="redirects to another host"):
                await gh_for(here.port, certificate).api("GET", "user")
        assert (plain.requests, other.requests) == ([], [])
        # The same host without TLS is the same host with TLS, or nobody.
        here.leads_to = "http://localhost/moved"
        with pytest.raises(Unavailable, match="redirects to another host"):
            await gh_for(here.port, certificate).api("GET", "user")


async def test_opening_a_pull_request_leads_nowhere_else_either(certificate: Path) -> None:
    """The server has no answer to POST; an earlier request of gh is redirected."""
    with answering(certificate) as here, answering() as plain:
        here.leads_to = f"http://127.0.0.1:{plain.port}/moved"
        code, _, said = await gh_for(here.port, certificate).run("api", "graphql", "--method", "GET")
        assert code != 0 and "421" in said and plain.requests == []


async def test_by_way_of_a_proxy(certificate: Path) -> None:
    with answering(certificate) as here, proxying() as (port, asked):
        through = gh_for(here.port, certificate, HTTPS_PROXY=f"http://me:p%40ss@127.0.0.1:{port}")
        assert (await through.api("GET", "user")).status == 200
        assert asked == [
            f"CONNECT localhost:{here.port} HTTP/1.1",
            "Proxy-Authorization: Basic bWU6cEBzcw==",
        ]
        spared = gh_for(here.port, certificate, https_proxy="http://127.0.0.1:1", NO_PROXY="a.b, localhost")
        assert (await spared.api("GET", "user")).status == 200
        with pytest.raises(HutchError, match="should be http://HOST:PORT"):
            await gh_for(here.port, certificate, https_proxy="socks5://127.0.0.1:1").api("GET", "user")


async def test_an_answer_without_end_is_not_read_to_its_end(certificate: Path) -> None:
    with answering(certificate) as here:
        here.size = 1 << 30
        with pytest.raises(Unavailable, match="more than 67108864 bytes"):
            await gh_for(here.port, certificate).api("GET", "user")
    assert here.sent < 200 << 20


async def test_a_long_path_is_no_hindrance(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    async with Relay("github.com", {}).serve(deep / "api.sock"):
        assert [each.name for each in deep.iterdir()] == ["api.sock"]
