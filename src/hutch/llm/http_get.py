"""One GET request by hand, for a quick look at a server: a client library takes half a second to load."""

import asyncio
import contextlib
import socket
import threading
from urllib.parse import urlsplit

MAX_BODY_BYTES = 1_000_000


async def http_get(base_url: str, path: str, *, timeout_s: float) -> tuple[int, bytes]:
    """Status and body of `path` on the host of an address. No key is sent.

    Raises OSError (TimeoutError included) when there is no answer, ValueError when the answer is not HTTP
    or the address is not one.
    """
    place = urlsplit(base_url)
    if not place.hostname:
        raise ValueError(f"'{base_url}' names no host.")
    secure = place.scheme == "https"
    answer = b""
    async with asyncio.timeout(timeout_s):
        port = place.port or (443 if secure else 80)
        reader, writer = await _connect(place.hostname, port, secure)
        try:
            lines = f"GET {path} HTTP/1.0", f"Host: {place.netloc}", "Connection: close", "", ""
            writer.write("\r\n".join(lines).encode())
            while len(answer) < MAX_BODY_BYTES and (part := await reader.read(64 * 1024)):
                answer += part
        finally:
            writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    version, _, status = head.split(b"\r\n", 1)[0].partition(b" ")
    if not version.startswith(b"HTTP/") or not status[:3].isdigit():
        raise ValueError("The answer is not HTTP.")
    return int(status[:3]), body


async def _connect(host: str, port: int, secure: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the first address of a host that accepts one."""
    refused: OSError | None = None
    for address in await _resolve(host):
        try:
            if secure:
                return await asyncio.open_connection(address, port, ssl=True, server_hostname=host)
            return await asyncio.open_connection(address, port)
        except OSError as error:
            refused = error
    raise refused or OSError(f"'{host}' has no address")


async def _resolve(host: str) -> list[str]:
    """The addresses of a host.

    In a thread that nobody waits for: a name server that does not answer would hold an executor, and with
    it the end of the process, long after the timeout.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[str]] = loop.create_future()

    def finish(result: list[str] | OSError) -> None:
        if found.cancelled():
            return
        if isinstance(result, OSError):
            found.set_exception(result)
        else:
            found.set_result(result)

    def look() -> None:
        result: list[str] | OSError
        try:
            listed = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            result = list(dict.fromkeys(str(place[0]) for *_, place in listed))
        except UnicodeError:
            result = OSError(f"'{host}' is not the name of a host")
        except OSError as error:
            result = error
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(finish, result)

    threading.Thread(target=look, daemon=True).start()
    return await found
