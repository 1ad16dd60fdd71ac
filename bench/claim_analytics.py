"""The speed of the analytics on a large log: the projection, its delay behind live events, and dashboards.

`HUTCH_BENCH_EVENTS` sets the number of events; with 10,000,000 it needs 4 GB in /var/tmp and ten minutes. The
events have the types and sizes of ordinary sessions. They are written without a hash chain, which no
projection reads. The projection's time is that of the processor: load by others does not count.
"""

import asyncio
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench.result_row import Row, percentile

from hutch.domain.events import (
    CommandEnded,
    CommandStarted,
    Event,
    FileChanged,
    ModelReplied,
    RunEnded,
    RunQueued,
    RunStarted,
    SessionOpened,
    SessionPrepared,
    ShellPrinted,
    SnapshotTaken,
    ToolCalled,
    ToolReturned,
    to_json,
)
from hutch.domain.ids import new_session_id
from hutch.flows.analytics.reports import ReportRequest, report_for
from hutch.store.analytics_queries import Analytics
from hutch.store.event_log import SqlLog, open_log
from hutch.system.clock_without_jumps import wall_ms

EVENTS = int(os.environ.get("HUTCH_BENCH_EVENTS", "300000"))
TURNS = 40
DAYS = 90
USERS, REPOSITORIES, MODELS = 40, 60, 4
TOOLS = ("bash", "edit_file", "read_file", "grep", "list_files", "run_tests")
REPORTS = (
    ReportRequest("spend", "model"),
    ReportRequest("spend", "user"),
    ReportRequest("spend", "repository"),
    ReportRequest("reliability", "all"),
    ReportRequest("reliability", "all", "hour"),
    ReportRequest("latency"),
    ReportRequest("outcomes", "repository"),
)
TIMES = 15
Payload = tuple[str, bytes]


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        yield from asyncio.run(measure_in(Path(directory)))


async def measure_in(place: Path) -> list[Row]:
    path = place / "hutch.db"
    arguments = (path, place / "blobs", place / "keys" / "signing.pem")
    async with open_log(*arguments):
        pass
    fill(path)
    async with open_log(*arguments) as log:
        projector = log.analytics_projector()
        began = time.process_time()
        await projector.catch_up()
        speed = EVENTS / (time.process_time() - began)
        delay_s = await delay_behind_live(log)
        took_ms = []
        for asked in REPORTS:
            for viewer in (None, "usr_7"):
                for _ in range(TIMES):
                    began = time.perf_counter()
                    await report_for(log, viewer, asked)
                    took_ms.append((time.perf_counter() - began) * 1000)
    of = f"of {EVENTS:,} events"
    return [
        Row(f"projection {of}", speed, None, "events/s", 50_000, at_least=True),
        Row("analytics behind live events", delay_s, None, "s", 5),
        Row(f"dashboard queries {of}, p95", percentile(took_ms, 95), None, "ms", 200),
    ]


def fill(path: Path) -> None:
    """Write sessions of about 500 events, spread over the days."""
    now_ms, template = wall_ms(), [(event.type, to_json(event)) for event in of_one_session()]
    sessions = max(1, EVENTS // len(template))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("BEGIN")
        for number in range(sessions):
            begin_ms = now_ms - (sessions - number) * DAYS * 86_400_000 // sessions
            log_id, session_id = number + 1, str(new_session_id())
            connection.execute(
                "INSERT INTO logs (id, session_id, seq, hash, at_ms, opened_ms, ended, signed_seq, "
                "payload_bytes, omitted) VALUES (?, ?, ?, '', ?, ?, 0, 0, 0, '')",
                (log_id, session_id, len(template), begin_ms, begin_ms),
            )
            rows = (
                (log_id, seq, begin_ms + seq * 1000, type_, b"0" * 16, varied(payload, number))
                for seq, (type_, payload) in enumerate(template, start=1)
            )
            connection.executemany(
                "INSERT INTO events (log_id, seq, at_ms, type, payload_hash, hash, salt, payload) "
                "VALUES (?, ?, ?, ?, '', '', ?, ?)",
                rows,
            )
        connection.execute("COMMIT")


def varied(payload: bytes, number: int) -> bytes:
    if b"%" not in payload:
        return payload
    for sign, count in ((b"%user", USERS), (b"%repository", REPOSITORIES), (b"%model", MODELS)):
        payload = payload.replace(sign, b"%d" % (number * 7 % count))
    return payload


def of_one_session() -> list[Event]:
    events: list[Event] = [
        SessionOpened(owner="usr_%user"),
        SessionPrepared(
            workspace="w", source="https://example.com/%repository", commit="4f2a", duration_s=0.2
        ),
        RunQueued(run_id="run_1", prompt="Mend the test."),
        RunStarted(
            run_id="run_1", prompt="Mend the test.", persona="engineer", model="p:m%model", jail_s=0.1
        ),
    ]
    for turn in range(TURNS):
        call = {"run_id": "run_1", "call_id": f"c{turn}", "tool": TOOLS[turn % len(TOOLS)]}
        reply = ModelReplied(
            run_id="run_1",
            turn=turn,
            text="I read the file now. " * 5,
            input_tokens=9_000 + turn,
            cached_tokens=8_000,
            output_tokens=120,
            cost_usd=0.0123,
            duration_s=1.5 + turn / 10,
            first_token_s=0.4,
        )
        events += [
            reply,
            ToolCalled(**call, arguments='{"command": "make test"}'),
            CommandStarted(command="make test", cwd="/w"),
            *(ShellPrinted(shell="main", stream="stdout", text="collected 12 items\n" * 4) for _ in range(5)),
            CommandEnded(command="make test", cwd="/w", exit_code=0, duration_s=0.4),
            FileChanged(path="app.py", kind="modified", cause="tool"),
            SnapshotTaken(snapshot=turn, tree="4f2a" * 10, reason="after a call"),
            ToolReturned(**call, ok=turn % 9 > 0, text="ok\n" * 40, duration_s=0.4),
        ]
    return [*events, RunEnded(run_id="run_1", outcome="done", turns=TURNS, duration_s=180.0)]


async def delay_behind_live(log: SqlLog) -> float:
    """The longest time until appended events are in the analytics, while 1,000 events come each second."""
    running, delays, found = asyncio.ensure_future(log.analytics_projector().run()), [], Analytics(log)
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened(owner="usr_live")])
    try:
        for _ in range(5):
            began = time.perf_counter()
            for _ in range(10):
                await log.append(session_id, of_one_session()[4:104])
            while await found.count_unprocessed():  # noqa: ASYNC110  it reports no event
                await asyncio.sleep(0.02)
            delays.append(time.perf_counter() - began)
    finally:
        running.cancel()
        await asyncio.wait([running])
    return max(delays)
