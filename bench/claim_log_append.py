"""Durable appends, compared with plain sqlite3 with the same durability, table and rows.

The alternative makes no JSON, salt, hash or signature. Both are measured alternately,
and the median is taken, because the load of the disk varies.
"""

import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.result_row import Row

from hutch.domain.events import MessageSent, SessionOpened
from hutch.domain.ids import new_session_id
from hutch.store.database import open_database
from hutch.store.event_log import open_log

EVENT = MessageSent(author="agent", text="a line of output, as long as such lines are " * 5)
ROUNDS = 5
INSERT = (
    "INSERT INTO events (log_id, seq, at_ms, type, payload_hash, hash, salt, payload) "
    "VALUES (1, ?, 1794741507906, 'message.sent', ?, ?, ?, ?)"
)


async def ours(home: Path, callers: int, batch: int, events: int) -> float:
    """Events per second of concurrent callers, each of which waits for its own."""
    async with open_log(home / "hutch.db", home / "blobs", home / "signing.pem") as log:
        session_id = new_session_id()
        await log.append(session_id, [SessionOpened()])

        async def call() -> None:
            for _ in range(events // callers // batch):
                await log.append(session_id, [EVENT] * batch)

        started = time.perf_counter()
        await asyncio.gather(*(call() for _ in range(callers)))
        return events / (time.perf_counter() - started)


def theirs(home: Path, batch: int, events: int) -> float:
    """Events per second of one connection that commits every `batch` rows."""
    open_database(home / "hutch.db").dispose()
    connection = sqlite3.connect(home / "hutch.db", isolation_level=None)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("INSERT INTO logs VALUES (1, 'ses', 0, '', 0, 0, 0, 0, 0, '')")
    payload = b'{"author":"agent","text":"' + EVENT.text.encode() + b'","type":"message.sent","v":1}'
    rows = [(seq, "0" * 64, "1" * 64, b"s" * 16, payload) for seq in range(events)]
    started = time.perf_counter()
    for start in range(0, events, batch):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(INSERT, rows[start : start + batch])
        connection.execute("COMMIT")
    took = time.perf_counter() - started
    connection.close()
    return events / took


def pair(callers: int, batch: int, events: int) -> tuple[float, float]:
    """The medians of both, measured alternately."""
    own, raw = [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as directory:
            own.append(asyncio.run(ours(Path(directory), callers, batch, events)))
        with tempfile.TemporaryDirectory() as directory:
            raw.append(theirs(Path(directory), batch, events))
    return statistics.median(own), statistics.median(raw)


def measure() -> Iterator[Row]:
    for claim, callers, batch, events, bar in (
        ("append, one caller, one event", 1, 1, 2_000, 0.3),
        ("append, 100 callers, one event", 100, 1, 20_000, 0.5),
        ("append, one caller, batches of 100", 1, 100, 50_000, 0.5),
        ("append, 10 callers, batches of 100", 10, 100, 50_000, 0.5),
    ):
        own, raw = pair(callers, batch, events)
        yield Row(claim, own, raw, "/s", bar, f"sqlite3, {batch} per commit", at_least=True)
