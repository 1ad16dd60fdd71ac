"""HTTP to an extension elsewhere, through the egress proxy of a jail that allows only its host.

The proxy checks the address, so a server can lead neither to this machine nor to another host. Secrets in
headers are added here: neither the model nor a jail sees them.
"""

import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpcore2
import httpx2
from anyio.abc import ByteStream, SocketAttribute, SocketStream
from anyio.streams.tls import TLSAttribute, TLSStream
from mcp.client.streamable_http import streamable_http_client

from hutch.agent.extensions.extension_manifest import REFERENCE, Manifest
from hutch.domain.errors import Unavailable
from hutch.jail.running_jail import Jailed
from hutch.system.trusted_certificates import trusted_certificates

MAX_CONNECTION_BYTES = 64 * 1024 * 1024  # that one connection may bring
CONNECT_TIMEOUT_S = 30.0


@asynccontextmanager
async def client_through(
    jail: Jailed, manifest: Manifest, secrets: Mapping[str, str]
) -> AsyncIterator[httpx2.AsyncClient]:
    """An HTTP client whose only way out is the proxy of this jail."""
    port = urlsplit(jail.proxy_environment.get("http_proxy", "")).port
    if port is None:
        raise Unavailable(f"The extension {manifest.name} has no proxy to reach its server.")
    headers = {
        name: REFERENCE.sub(lambda found: secrets.get(found[1], ""), value)
        for name, value in manifest.headers
    }
    pool = httpcore2.AsyncHTTPProxy(
        f"http://127.0.0.1:{port}", ssl_context=trusted_certificates(), network_backend=_Backend(jail)
    )
    timeout = httpx2.Timeout(manifest.timeout_s, connect=CONNECT_TIMEOUT_S)
    async with httpx2.AsyncClient(transport=_Transport(pool), headers=headers, timeout=timeout) as client:
        yield client


def transport(url: str, client: httpx2.AsyncClient) -> AbstractAsyncContextManager[Any]:
    """The transport of the protocol over HTTP."""
    return streamable_http_client(url, http_client=client)


class _Transport(httpx2.AsyncHTTPTransport):
    """The usual transport with another pool of connections."""

    def __init__(self, pool: httpcore2.AsyncHTTPProxy) -> None:
        self._pool = pool


class _Backend(httpcore2.AsyncNetworkBackend):
    """Opens connections inside the network of a jail, where only its proxy is."""

    def __init__(self, jail: Jailed) -> None:
        self._jail = jail

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (its interface)
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            with anyio.fail_after(timeout):
                connection = await self._jail.connect(port, host=host)
                stream = await SocketStream.from_socket(connection)
        except TimeoutError:
            raise httpcore2.ConnectTimeout from None
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from None
        return _Stream(stream)

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class _Stream(httpcore2.AsyncNetworkStream):
    """A connection that brings a bounded number of bytes."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._read = 0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        try:
            with anyio.fail_after(timeout):
                data = await self._stream.receive(max_bytes)
        except anyio.EndOfStream:
            return b""
        except TimeoutError:
            raise httpcore2.ReadTimeout from None
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise httpcore2.ReadError(str(error)) from None
        self._read += len(data)
        if self._read > MAX_CONNECTION_BYTES:
            raise httpcore2.ReadError(f"The server sent more than {MAX_CONNECTION_BYTES // 1024**2} MiB.")
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        try:
            with anyio.fail_after(timeout):
                await self._stream.send(buffer)
        except TimeoutError:
            raise httpcore2.WriteTimeout from None
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise httpcore2.WriteError(str(error)) from None

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (its interface)
    ) -> httpcore2.AsyncNetworkStream:
        try:
            with anyio.fail_after(timeout):
                wrapped = await TLSStream.wrap(
                    self._stream,
                    ssl_context=ssl_context,
                    hostname=server_hostname,
                    standard_compatible=False,
                    server_side=False,
                )
        except TimeoutError:
            raise httpcore2.ConnectTimeout from None
        except (ssl.SSLError, anyio.BrokenResourceError, anyio.EndOfStream) as error:
            raise httpcore2.ConnectError(str(error)) from None
        return _Stream(wrapped)

    def get_extra_info(self, info: str) -> Any:
        names = {
            "ssl_object": TLSAttribute.ssl_object,
            "client_addr": SocketAttribute.local_address,
            "server_addr": SocketAttribute.remote_address,
            "socket": SocketAttribute.raw_socket,
        }
        return self._stream.extra(names[info], None) if info in names else None
