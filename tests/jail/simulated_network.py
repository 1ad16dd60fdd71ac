"""The network outside a jail, simulated on loopback: servers to reach and a proxy to reach them."""

import asyncio
import datetime
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hutch.jail.egress import Egress, EgressAttempt, EgressLimits, Resolve, serve_egress

HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@dataclass
class Origin:
    """A server that records what it was sent."""

    port: int
    received: bytearray = field(default_factory=bytearray)
    connections: int = 0


@asynccontextmanager
async def origin(
    answer: bytes = HELLO, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Origin]:
    """Answers every request head, and keeps listening on the same connection."""
    opened = Origin(0)
    tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())  # type: ignore[arg-type]
        opened.connections += 1
        seen = b""
        try:
            while data := await reader.read(65536):
                opened.received += data
                seen += data
                while b"\r\n\r\n" in seen:
                    seen = seen.partition(b"\r\n\r\n")[2]
                    writer.write(answer)
                    await writer.drain()
        except OSError:
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, host, port, ssl=tls)
    opened.port = server.sockets[0].getsockname()[1]
    try:
        yield opened
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def resolving(*addresses: str) -> Resolve:
    """A resolver that returns these addresses for every name."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolve


@dataclass
class Proxy:
    port: int
    attempts: list[EgressAttempt]
    egress: Egress

    @property
    def decided(self) -> list[tuple[str, str, int, bool]]:
        """One line for each attempt, in its final state."""
        last = {attempt.number: attempt for attempt in self.attempts}
        return [(a.method, a.host, a.port, a.allowed) for a in last.values()]

    async def ask(self, request: bytes, *, within_s: float = 60.0) -> bytes:
        """The whole answer to these raw bytes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(request)
            async with asyncio.timeout(within_s):
                return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.transport.abort()

    async def get(self, host: str, path: str = "/") -> bytes:
        return await self.ask(f"GET http://{host}{path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())

    async def over(self, count: int = 1) -> list[EgressAttempt]:
        """The reports of ended attempts, once there are so many."""
        for _ in range(6000):
            if len(ended := [a for a in self.attempts if a.duration_s is not None]) >= count:
                return ended
            await asyncio.sleep(0.01)
        raise TimeoutError(f"{count} attempts did not end: {self.attempts}")


@asynccontextmanager
async def proxy(
    *allow: str,
    resolve: Resolve | None = None,
    also: Sequence[str] = ("127.0.0.0/8",),
    limits: EgressLimits | None = None,
    listener: socket.socket | None = None,
) -> AsyncIterator[Proxy]:
    """A proxy for which every name is 127.0.0.1 and loopback is exempt, by default."""
    attempts: list[EgressAttempt] = []
    async with serve_egress(
        listener or listening(),
        allow,
        attempts.append,
        resolve=resolve or resolving("127.0.0.1"),
        also_allow_networks=also,
        limits=limits,
    ) as egress:
        yield Proxy(egress.port, attempts, egress)


def certificate(directory: Path, *names: str) -> tuple[Path, ssl.SSLContext]:
    """A self-signed certificate for these names: the file to trust, and the server's side."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    now = datetime.datetime.now(datetime.UTC)
    cert = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(n) for n in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    trusted, private = directory / "cert.pem", directory / "key.pem"
    trusted.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(trusted, private)
    return trusted, context


@contextmanager
def files(root: Path, *, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """A directory over HTTP, with git repositories served by git itself."""

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(root))

        def log_message(self, *arguments: object) -> None:
            pass

        def do_GET(self) -> None:
            if ".git/" in self.path:
                self._git(b"")
            else:
                super().do_GET()

        def do_POST(self) -> None:
            self._git(self.rfile.read(int(self.headers["Content-Length"])))

        def _git(self, body: bytes) -> None:
            path, _, query = self.path.partition("?")
            backend = subprocess.run(
                ["git", "http-backend"],
                input=body,
                capture_output=True,
                check=True,
                env={
                    **{"GIT_PROJECT_ROOT": str(root), "GIT_HTTP_EXPORT_ALL": "1", "PATH": os.environ["PATH"]},
                    **{"PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command},
                    **{"CONTENT_TYPE": self.headers.get("Content-Type", "")},
                    **{"HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", "")},
                    **{"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory"},
                    **{"GIT_CONFIG_VALUE_0": "*", "REMOTE_USER": "tester"},
                },
            )
            head, _, content = backend.stdout.partition(b"\r\n\r\n")
            length = f"Content-Length: {len(content)}".encode()
            self.wfile.write(b"\r\n".join([b"HTTP/1.0 200 OK", head, length, b"", content]))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()


async def run(*argv: str | Path, env: Mapping[str, str], cwd: Path) -> tuple[int, str]:
    """A real client, with nothing of our environment but PATH."""
    process = await asyncio.create_subprocess_exec(
        *map(str, argv),
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), **env},
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(60):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, output.decode()


async def trickle(writer: asyncio.StreamWriter, data: bytes, every_s: float) -> None:
    for byte in data:
        writer.write(bytes([byte]))
        await asyncio.sleep(every_s)
