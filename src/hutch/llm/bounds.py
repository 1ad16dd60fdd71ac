"""How much a server may say.

Client libraries gather a line until it ends and a reply until it is whole, so one that
never ends takes all the memory there is.
"""

from collections.abc import AsyncGenerator

import httpx2

from hutch.domain.errors import Unavailable
from hutch.llm.seam import CallArguments, CallStarted, Delta, Text, Thinking

MOST_EVENT_BYTES = 16 * 1024 * 1024  # until an empty line
MOST_REPLY_LETTERS = 16 * 1024 * 1024  # of text, thoughts and arguments together
CALL_LETTERS = 100  # what a call takes beside its arguments
ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
REPORTED = f"more than {MOST_REPLY_LETTERS // 1024**2} MiB. Ask again, or choose another model."


class Bound:
    """Counts what a reply is made of."""

    def __init__(self) -> None:
        self._left = MOST_REPLY_LETTERS

    def add(self, piece: Delta) -> None:
        match piece:
            case Text() | Thinking() | CallArguments():
                self._left -= len(piece.text)
            case CallStarted():
                self._left -= CALL_LETTERS + len(piece.tool)
        if self._left < 0:
            raise Unavailable(f"The server sends a reply without end: {REPORTED}")


async def bounded(response: httpx2.Response) -> None:
    """As a hook of a client: no event of a response, and no error, is longer than it may be."""
    whole = response.aiter_bytes

    async def pieces(chunk_size: int | None = None) -> AsyncGenerator[bytes]:
        since, tail = 0, b""
        async for piece in whole(chunk_size):
            near = tail + piece
            end = max(near.rfind(mark) + len(mark) if mark in near else -1 for mark in ENDS)
            since = len(near) - end if end >= 0 else since + len(piece)
            tail = near[-3:]
            if since > MOST_EVENT_BYTES:
                raise Unavailable(f"The server sends a line without end: {REPORTED}")
            yield piece

    response.aiter_bytes = pieces  # type: ignore[method-assign]
