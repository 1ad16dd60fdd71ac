"""One GET request, for a quick check of a server: `provider_http_client` takes half a second to load."""

import asyncio
import contextlib
import threading
from typing import Any
from urllib.parse import urlsplit

MAX_BODY_BYTES = 1_000_000


async def http_get(base_url: str, path: str, *, timeout_s: float) -> tuple[int, bytes]:
    """Status and body of `path` on the host of an address. No key is sent.

    Raises OSError (TimeoutError included) when there is no answer, ValueError when the answer is not HTTP
    or the address is invalid.

    The request runs in a daemon thread: a name server that does not answer would block an executor, and so
    the end of the process, long after the timeout.
    """
    url = urlsplit(base_url)
    if not url.hostname:
        raise ValueError(f"'{base_url}' names no host.")
    port, loop = url.port, asyncio.get_running_loop()
    answered: asyncio.Future[tuple[int, bytes]] = loop.create_future()

    def finish(answer: Any) -> None:
        if answered.cancelled():
            return
        if isinstance(answer, Exception):
            answered.set_exception(answer)
        else:
            answered.set_result(answer)

    def get() -> None:
        from http.client import HTTPConnection, HTTPException, HTTPSConnection

        connect = HTTPSConnection if url.scheme == "https" else HTTPConnection
        answer: Any
        try:
            with contextlib.closing(connect(str(url.hostname), port, timeout=timeout_s)) as connection:
                connection.request("GET", path)
                response = connection.getresponse()
                answer = response.status, response.read(MAX_BODY_BYTES)
        except OSError as error:
            answer = error
        except UnicodeError:
            answer = OSError(f"'{url.hostname}' is not the name of a host")
        except HTTPException:
            answer = ValueError("The answer is not HTTP.")
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(finish, answer)

    threading.Thread(target=get, daemon=True).start()
    async with asyncio.timeout(timeout_s):
        return await answered
