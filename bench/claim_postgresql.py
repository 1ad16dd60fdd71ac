"""Appends to a log in PostgreSQL, compared with a COPY of the same rows, as many in a commit.

The alternative makes no JSON, salt, hash or signature, reads no head and notifies nobody. Both are
durable, and measured alternately, because the load of the disk varies.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.claim_log_append import EVENT
from bench.result_row import Row

from hutch.domain.events import SessionOpened
from hutch.domain.ids import new_session_id
from hutch.store.event_log import open_log
from hutch.store.postgresql_connection import connect
from hutch.store.postgresql_transaction import COPIED_TYPES, COPY_EVENTS
from tests.postgresql_server import server

ROUNDS = 5


async def ours(home: Path, callers: int, batch: int, events: int) -> float:
    """Events per second of concurrent callers, each of which waits for its own."""
    location = server(durable=True).empty_database(home)
    async with open_log(location, home / "blobs", home / "signing.pem") as log:
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
    with connect(server(durable=True).empty_database(home)) as session:
        session.execute("INSERT INTO logs VALUES (1, 'ses', 0, '', 0, 0, false, 0, 0, '')")
        payload = b'{"author":"agent","text":"' + EVENT.text.encode() + b'","type":"message.sent","v":1}'
        rest = (1794741507906, "message.sent", "0" * 64, "1" * 64, b"s" * 16, payload)
        rows = [(1, seq, *rest) for seq in range(events)]
        started = time.perf_counter()
        for start in range(0, events, batch):
            with session.cursor().copy(COPY_EVENTS) as copy:
                copy.set_types(COPIED_TYPES)
                for row in rows[start : start + batch]:
                    copy.write_row(row)
        return events / (time.perf_counter() - started)


def pair(callers: int, batch: int, events: int, rows: int) -> tuple[float, float]:
    """The medians of both, measured alternately."""
    own, raw = [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as directory:
            own.append(asyncio.run(ours(Path(directory), callers, batch, events)))
            raw.append(theirs(Path(directory), rows, events))
    return statistics.median(own), statistics.median(raw)


def measure() -> Iterator[Row]:
    for claim, callers, batch, events, rows, bar in (
        ("append to PostgreSQL, one caller, one event", 1, 1, 1_000, 1, 0.2),
        ("append to PostgreSQL, 100 callers, one event", 100, 1, 10_000, 100, 0.3),
        ("append to PostgreSQL, 10 callers, batches of 100", 10, 100, 50_000, 1000, 0.5),
    ):
        own, raw = pair(callers, batch, events, rows)
        yield Row(claim, own, raw, "/s", bar, f"COPY, {rows} per commit", at_least=True)
