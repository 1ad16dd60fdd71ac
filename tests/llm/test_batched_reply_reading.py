"""Pauses in reading: fast replies have them, all others have none."""

import pytest

from hutch.llm.batched_reply_reading import FAST_CHUNKS, PAUSE_S, WAIT_S, Pacing

pytestmark = pytest.mark.anyio


class Stream:
    """Chunks that arrive at known times, read with pacing."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pacing = Pacing(lambda: self.now)

    async def read(self, after_s: float) -> bool:
        """Read a chunk that arrives after this time. Returns whether a pause follows."""
        self.now += after_s
        self.pacing.receive()
        pause = self.pacing.pause()
        try:
            pause.send(None)
        except StopIteration:
            return False
        pause.close()
        self.now += PAUSE_S
        return True


async def test_a_fast_reply_pauses_after_each_chunk_that_was_waited_for() -> None:
    stream = Stream()
    assert [await stream.read(0.001) for _ in range(FAST_CHUNKS)] == [False] * (FAST_CHUNKS - 1) + [True]
    assert await stream.read(0.001)


async def test_chunks_that_have_arrived_already_are_read_without_a_pause() -> None:
    stream = Stream()
    assert not any([await stream.read(WAIT_S / 2) for _ in range(10 * FAST_CHUNKS)])


async def test_a_slow_reply_has_no_pause() -> None:
    stream = Stream()
    assert not any([await stream.read(0.01) for _ in range(10 * FAST_CHUNKS)])


async def test_a_reply_that_becomes_slow_has_no_more_pauses() -> None:
    stream = Stream()
    assert [await stream.read(0.001) for _ in range(FAST_CHUNKS)][-1]
    paused = [await stream.read(0.05) for _ in range(2 * FAST_CHUNKS)]
    assert not any(paused[FAST_CHUNKS - 1 :])
