"""Pauses in the reading of a fast reply.

A chunk that arrives alone wakes the process, which costs more than reading the chunk. During a pause
the next chunks gather in the socket, and one wake-up serves all of them. Slow replies are read at once,
and so are chunks that have arrived already.
"""

import asyncio
import time
from collections.abc import Callable

PAUSE_S = 0.008  # users see no difference: a display shows a frame every 16 ms
FAST_CHUNKS, FAST_S = 16, 0.1  # a reply is fast while so many chunks arrive in so much time
WAIT_S = 0.0003  # a chunk that has arrived already is read in less


class Pacing:
    """The pauses of one reply."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._chunks = 0
        self._counted_since = self._requested_at = clock()
        self._is_fast = self._has_waited = False

    def receive(self) -> None:
        """Note that a chunk was read."""
        now = self._clock()
        self._has_waited = now - self._requested_at > WAIT_S
        self._chunks += 1
        if self._chunks == FAST_CHUNKS:
            self._is_fast = now - self._counted_since < FAST_S
            self._chunks, self._counted_since = 0, now

    async def pause(self) -> None:
        """Pause before the next chunk is read, if the reply is fast and had to be waited for."""
        if self._is_fast and self._has_waited:
            await asyncio.sleep(PAUSE_S)
        self._requested_at = self._clock()
