"""The delay from an append to a follower, in one process and across two."""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

from bench.result_row import Row, percentile

from hutch.domain.events import MessageSent, SessionOpened
from hutch.domain.ids import SessionId, new_session_id
from hutch.store.event_log import SqlLog, open_log

ROUNDS = 500


async def write(log: SqlLog, session_id: SessionId) -> None:
    for _ in range(ROUNDS):
        await log.append(session_id, [MessageSent(author="agent", text=str(time.perf_counter_ns()))])
        await asyncio.sleep(0.005)


async def delays(log: SqlLog, session_id: SessionId) -> list[float]:
    """Milliseconds from just before each append to its arrival here, by the clock of the machine."""
    seen: list[float] = []
    async with aclosing(log.follow(session_id, after=1)) as entries:
        async for entry in entries:
            assert isinstance(entry.event, MessageSent)
            seen.append((time.perf_counter_ns() - int(entry.event.text)) / 1e6)
            if len(seen) == ROUNDS:
                break
    return seen


async def follow(home: Path, *, across: bool) -> float:
    async with open_log(home / "hutch.db", home / "blobs", home / "signing.pem") as log:
        session_id = new_session_id()
        await log.append(session_id, [SessionOpened()])
        following = asyncio.create_task(delays(log, session_id))
        await asyncio.sleep(0.2)
        if across:
            command = [sys.executable, "-m", "bench.claim_log_follow", str(home), session_id]
            await asyncio.to_thread(subprocess.run, command, check=True)
        else:
            await write(log, session_id)
        return percentile(await following, 99)


async def write_only(home: Path, session_id: SessionId) -> None:
    async with open_log(home / "hutch.db", home / "blobs", home / "signing.pem") as log:
        await write(log, session_id)


def measure() -> Iterator[Row]:
    for claim, across, bar in (
        ("append to follower, one process, p99", False, 5.0),
        ("append to follower, two processes, p99", True, 25.0),
    ):
        with tempfile.TemporaryDirectory() as directory:
            yield Row(claim, asyncio.run(follow(Path(directory), across=across)), None, "ms", bar)


if __name__ == "__main__":
    asyncio.run(write_only(Path(sys.argv[1]), SessionId(sys.argv[2])))
