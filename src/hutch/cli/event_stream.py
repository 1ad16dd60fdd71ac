"""What happens in a session as it comes, over SSE: every entry once, whatever happens to the line.

After a cut, or when the server was started anew, the stream is opened again from the last
entry that came. Pieces of replies have no number and are not sent again; the whole reply is.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

import httpx2

from hutch.cli.client import Client, NotHutch
from hutch.domain.errors import (
    Denied,
    RecordDamaged,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    describe_missing,
)

SILENCE_S = 45.0  # the server says every 15 s that it is there
WAITS_S = (0.2, 0.5, 1.0, 1.0, 2.0)
MAX_BYTES = 64 * 1024 * 1024  # of one event
NO_WORD: Callable[[bool], None] = lambda here: None  # noqa: E731


@dataclass(frozen=True, slots=True)
class Update:
    """An entry of the log, or a piece of a reply."""

    entry: dict[str, Any] | None = None
    delta: dict[str, Any] | None = None


async def follow(
    client: Client, session_id: str, *, after: int = 0, line: Callable[[bool], None] = NO_WORD
) -> AsyncGenerator[Update]:
    """Everything after a number until the session has ended; `line` hears when it is cut, and is back.

    A server that is away is waited for. One that answers, and says again and again that it cannot, is not;
    nor is one that says that a part of the log is missing.
    """
    failures = refusals = 0
    gap_after = -1  # where an entry was missing the last time
    is_cut = False
    while True:
        try:
            async with aclosing(_events(client, session_id, after)) as events:
                async for kind, data in events:
                    failures = refusals = 0
                    if is_cut:
                        is_cut = False
                        line(True)
                    if kind == "damaged":
                        raise RecordDamaged(str(data.get("reason")))
                    if kind == "end":
                        return
                    if kind == "refused":
                        raise Denied(f"The server says: {data.get('reason', 'no')}.")
                    if kind == "delta":
                        yield Update(delta=data)
                    elif "event" in data and isinstance(data.get("seq"), int) and data["seq"] > after:
                        if data["seq"] > after + 1:  # one is missing: ask again for it, once
                            if gap_after == after:
                                raise RecordDamaged(f"{describe_missing(after + 1, data['seq'] - 1)}.")
                            gap_after = after
                            break
                        after = data["seq"]
                        yield Update(entry=data)
                    elif kind == "closing":
                        break
        except _Over:
            return
        except RecordDamaged:
            raise
        except (httpx2.TransportError, OSError, TooManyRequests, NotHutch):
            refusals = 0
        except (Unauthenticated, Unavailable):  # a server that was started anew has another token for us
            if refusals > len(WAITS_S):
                raise
            refusals += 1
        if not is_cut:
            is_cut = True
            line(False)
        await asyncio.sleep(WAITS_S[min(failures, len(WAITS_S) - 1)])
        failures += 1
        with suppress(Unavailable):  # none runs here now; perhaps one will
            await client.look_again()


class _Over(Exception):
    """Nothing more will come."""


async def _events(client: Client, session_id: str, after: int) -> AsyncGenerator[tuple[str, dict[str, Any]]]:
    headers = {"Accept": "text/event-stream", **({"Last-Event-ID": str(after)} if after else {})}
    path = f"/sessions/{session_id}/events/stream"
    async with client.stream(path, headers=headers, silence_s=SILENCE_S) as answer:
        if answer.status_code == 204:
            raise _Over
        yield "open", {}
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


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Split at newlines and at nothing else: text in JSON may hold other signs that end a line."""
    rest: list[bytes] = []
    size = 0
    async for piece in pieces:
        first, *more = piece.split(b"\n")
        rest.append(first)
        size += len(first)
        if size > MAX_BYTES:
            raise Unavailable("The server sends an event without an end.")
        for line in more:
            yield b"".join(rest).removesuffix(b"\r")
            rest, size = [line], len(line)


def _object(data: bytes) -> dict[str, Any]:
    try:
        told = json.loads(data)
    except ValueError:
        raise Unavailable("The server sends events that are no JSON.") from None
    return told if isinstance(told, dict) else {}
