"""A page of 1,000 events from a log of a million, compared with one from a log of ten thousand."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.result_row import Row

from hutch.domain.events import MessageSent, SessionOpened
from hutch.domain.ids import SessionId, new_session_id
from hutch.store.event_log import SqlLog, open_log

EVENT = MessageSent(author="agent", text="a line of output, as long as such lines are")


async def fill(log: SqlLog, events: int) -> SessionId:
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened()])
    for _ in range(events // 1000):
        await log.append(session_id, [EVENT] * 1000)
    return session_id


async def page_ms(log: SqlLog, session_id: SessionId, after: int) -> float:
    started = time.perf_counter()
    assert len(await log.read(session_id, after=after, limit=1000)) == 1000
    return (time.perf_counter() - started) * 1000


async def both(home: Path) -> tuple[float, float]:
    async with open_log(home / "hutch.db", home / "blobs", home / "signing.pem") as log:
        small, large = await fill(log, 10_000), await fill(log, 1_000_000)
        pairs = [
            (await page_ms(log, large, 1000 + place * 48_000), await page_ms(log, small, place * 400))
            for place in range(20)
        ]
    return statistics.median(one for one, _ in pairs), statistics.median(other for _, other in pairs)


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as directory:
        large, small = asyncio.run(both(Path(directory)))
    yield Row("page of 1,000 from 1,000,000", large, small, "ms", 1.5, "from 10,000")
