"""A relay that connects gh to the API of one host only.

gh follows redirects and sends its token to the new host. So gh is configured to use a
Unix socket in a private directory. The relay behind it connects over TLS to the host
that the token is for, and refuses all others.
"""

import asyncio
import base64
import contextlib
import json
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hutch.system.lazy_dataclass import dataclass
from hutch.system.task_cancellation import cancel_and_wait

# CA files of common systems, for a Python that was built elsewhere.
CA_FILES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
MAX_HEAD_BYTES = 64 * 1024
MAX_RESPONSE_BYTES = 80 * 1024 * 1024  # of a compressed response
CONNECT_TIMEOUT_S = 30.0
MISDIRECTED = 421  # Misdirected Request

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Relay:
    """Connects to one host. `socket` is a Unix socket to use instead of the network."""

    host: str  # with its port, unless that is 443
    environ: Mapping[str, str]
    socket: str = ""

    @asynccontextmanager
    async def serve(self, path: Path) -> AsyncIterator[None]:
        """Listen on a Unix socket at `path` until the block ends."""
        tasks: set[asyncio.Task[None]] = set()

        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._serve((reader, writer)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        # By a short path: socket paths have a low length limit.
        directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            short = f"/proc/self/fd/{directory}/{path.name}"
            server = await asyncio.start_unix_server(accepted, short, limit=MAX_HEAD_BYTES)
        finally:
            os.close(directory)
        try:
            yield
        finally:
            server.close()
            await cancel_and_wait(*tasks)

    async def _serve(self, client: Connection) -> None:
        async with _closing(client[1]):
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                head = await client[0].readuntil(b"\r\n\r\n")
                named = _requested_host(head)
                if named not in (self.host, f"api.{self.host}"):
                    _refuse(
                        client[1],
                        MISDIRECTED,
                        f"it redirects to {named[:200]!r}, which must not get the token",
                    )
                    return
                try:
                    async with asyncio.timeout(CONNECT_TIMEOUT_S):
                        upstream = await self._connect(named)
                except (OSError, ValueError, EOFError, TimeoutError) as error:
                    _refuse(client[1], 504, f"no connection to {named}: {error or 'it took too long'}")
                    return
                upstream[1].write(_close_after_response(head))
                asking = asyncio.ensure_future(_copy_stream(client[0], upstream[1]))
                try:
                    await _copy_stream(upstream[0], client[1], max_bytes=MAX_RESPONSE_BYTES)
                finally:
                    upstream[1].transport.abort()
                    await cancel_and_wait(asking)

    async def _connect(self, named: str) -> Connection:
        if self.socket:
            return await asyncio.open_unix_connection(self.socket)
        parts = urlsplit(f"https://{named}")
        name, port = parts.hostname or "", parts.port or 443
        files = (self.environ.get("SSL_CERT_FILE", ""), self.environ.get("SSL_CERT_DIR", ""))
        trust = await asyncio.to_thread(_tls_context, *files)
        proxy = self._proxy(name)
        if not proxy:
            return await asyncio.open_connection(name, port, ssl=trust)
        reader, writer = await _connect_through_proxy(
            proxy, f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
        )
        await writer.start_tls(trust, server_hostname=name)
        return reader, writer

    def _proxy(self, name: str) -> str:
        proxy = self.environ.get("https_proxy") or self.environ.get("HTTPS_PROXY") or ""
        excluded = self.environ.get("no_proxy") or self.environ.get("NO_PROXY") or ""
        return "" if _bypasses_proxy(name, excluded) else proxy


def _bypasses_proxy(name: str, excluded: str) -> bool:
    """True if a host or one of its parent domains is listed in no_proxy."""
    listed = (
        each.strip().lower().lstrip("*.").partition(":")[0] for each in excluded.split(",") if each.strip()
    )
    return any(not each or name == each or name.endswith(f".{each}") for each in listed)


@cache
def _tls_context(file: str, directory: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=file or None, capath=directory or None)
    if not (file or directory or context.cert_store_stats()["x509_ca"]):
        for path in filter(lambda each: Path(each).exists(), CA_FILES):
            context.load_verify_locations(path)
    return context


async def _connect_through_proxy(proxy: str, place: str) -> Connection:
    """Open a connection through a proxy."""
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError("HTTPS_PROXY should be http://HOST:PORT")
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    if parts.username:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(pair.encode()).decode()}")
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode())
        status_line = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0].decode(errors="replace")
        if status_line.split(" ")[1:2] != ["200"]:
            raise ValueError(f"the proxy says {status_line[:100]!r}")
    except BaseException:
        writer.close()
        raise
    return reader, writer


def _requested_host(head: bytes) -> str:
    """The Host header; empty unless there is exactly one."""
    found = [line.partition(b":")[2] for line in head.split(b"\r\n")[1:] if _is_header(line, b"host")]
    return found[0].strip().decode(errors="replace").lower() if len(found) == 1 else ""


def _close_after_response(head: bytes) -> bytes:
    lines = [
        line for line in head.removesuffix(b"\r\n\r\n").split(b"\r\n") if not _is_header(line, b"connection")
    ]
    return b"\r\n".join([*lines, b"Connection: close", b"", b""])


def _is_header(line: bytes, name: bytes) -> bool:
    return line.partition(b":")[0].strip().lower() == name


def _refuse(writer: asyncio.StreamWriter, status: int, why: str) -> None:
    content = json.dumps({"message": why}).encode()
    head = f"HTTP/1.1 {status} Not Passed On\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(content)}\r\nConnection: close\r\n\r\n".encode() + content)


async def _copy_stream(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, max_bytes: int = 0
) -> None:
    total = 0
    while data := await reader.read(65536):
        total += len(data)
        if max_bytes and total > max_bytes:
            return  # truncated, which gh reports
        writer.write(data)
        await writer.drain()


@asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # the client has disconnected
            writer.close()  # after all is written
            await writer.wait_closed()
