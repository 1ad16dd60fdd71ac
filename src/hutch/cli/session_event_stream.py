"""The live events of a session over SSE: every entry once, despite broken connections.

After an interruption or a restart of the server, the stream is reopened after the last entry received.
Parts of replies have no number and are not sent again; the whole reply is.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import Any

import httpx2

from hutch.cli.api_client import Client, NotHutch
from hutch.domain.errors import (
    Denied,
    RecordDamaged,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    describe_missing,
)
from hutch.system.lazy_dataclass import dataclass

SILENCE_TIMEOUT_S = 45.0  # the server sends a heartbeat every 15 s
RETRY_DELAYS_S = (0.2, 0.5, 1.0, 1.0, 2.0)
MAX_EVENT_BYTES = 64 * 1024 * 1024
IGNORE_CONNECTION: Callable[[bool], None] = lambda connected: None  # noqa: E731


@dataclass(frozen=True, slots=True)
class Update:
    """An entry of the log, or a part of a reply."""

    entry: dict[str, Any] | None = None
    delta: dict[str, Any] | None = None


async def follow(
    client: Client,
    session_id: str,
    *,
    after: int = 0,
    on_connection: Callable[[bool], None] = IGNORE_CONNECTION,
) -> AsyncGenerator[Update]:
    """Every update after an entry until the session ends; calls `on_connection` with False, then True,
    around an interruption.

    Waits for a server that does not respond. Raises when a server keeps refusing, or says that a part of the
    log is missing.
    """
    failures = refusals = 0
    gap_after = -1  # the entry before the last gap
    is_cut = False
    while True:
        try:
            async with aclosing(_events(client, session_id, after)) as events:
                async for kind, data in events:
                    failures = refusals = 0
                    if is_cut:
                        is_cut = False
                        on_connection(True)
                    if kind == "damaged":
                        raise RecordDamaged(str(data.get("reason")))
                    if kind == "end":
                        return
                    if kind == "refused":
                        raise Denied(f"The server says: {data.get('reason', 'no')}.")
                    if kind == "delta":
                        yield Update(delta=data)
                    elif "event" in data and isinstance(data.get("seq"), int) and data["seq"] > after:
                        if data["seq"] > after + 1:  # an entry is missing: request it again, once
                            if gap_after == after:
                                raise RecordDamaged(f"{describe_missing(after + 1, data['seq'] - 1)}.")
                            gap_after = after
                            break
                        after = data["seq"]
                        yield Update(entry=data)
                    elif kind == "closing":
                        break
        except _Ended:
            return
        except RecordDamaged:
            raise
        except (httpx2.TransportError, OSError, TooManyRequests, NotHutch):
            refusals = 0
        except (Unauthenticated, Unavailable):  # a restarted server has a new local token
            if refusals > len(RETRY_DELAYS_S):
                raise
            refusals += 1
        if not is_cut:
            is_cut = True
            on_connection(False)
        await asyncio.sleep(RETRY_DELAYS_S[min(failures, len(RETRY_DELAYS_S) - 1)])
        failures += 1
        with suppress(Unavailable):  # no server is running now; one may start
            await client.refresh_address()


class _Ended(Exception):
    """The stream has ended."""


async def _events(client: Client, session_id: str, after: int) -> AsyncGenerator[tuple[str, dict[str, Any]]]:
    headers = {"Accept": "text/event-stream", **({"Last-Event-ID": str(after)} if after else {})}
    path = f"/sessions/{session_id}/events/stream"
    async with client.stream(path, headers=headers, silence_s=SILENCE_TIMEOUT_S) as answer:
        if answer.status_code == 204:
            raise _Ended
        yield "open", {}
        async for kind, data in read_sse(answer):
            yield kind, data


async def read_sse(answer: httpx2.Response) -> AsyncGenerator[tuple[str, dict[str, Any]]]:
    """The kinds and data of the events of an SSE response."""
    kind, data = "message", b""
    async for text in _lines(answer.aiter_bytes()):
        name, _, value = text.partition(b":")
        value = value.removeprefix(b" ")
        if not text:
            if data:
                yield kind, _object(data)
            kind, data = "message", b""
        elif name == b"event":
            kind = value.decode(errors="replace")
        elif name == b"data":
            data += value


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Split at newlines only: text in JSON may contain other line separators."""
    rest: list[bytes] = []
    size = 0
    async for chunk in chunks:
        first, *more = chunk.split(b"\n")
        rest.append(first)
        size += len(first)
        if size > MAX_EVENT_BYTES:
            raise Unavailable(f"The server sent an event of more than {MAX_EVENT_BYTES} bytes.")
        for line in more:
            yield b"".join(rest).removesuffix(b"\r")
            rest, size = [line], len(line)


def _object(data: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(data)
    except ValueError:
        raise Unavailable("The server sent an event that is not JSON.") from None
    return parsed if isinstance(parsed, dict) else {}
