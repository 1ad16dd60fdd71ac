"""A database that an earlier version wrote: it is migrated, and its events are read by their current names.

`revision_0015.sql` is the dump of one, with a log that has an erased event and a signed end.
"""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from hutch.domain.events import (
    EVENT_TYPES,
    ApprovalAnswered,
    ApprovalRequested,
    DeliveryRequested,
    Entry,
    ErasedEvent,
    Event,
    EventsOmitted,
    InputProcessed,
    JobsDetached,
    ReviewSubmitted,
    StepReached,
    from_json,
    to_json,
)
from hutch.domain.ids import SessionId
from hutch.domain.log_entry_audience import WHOLE, entry_json, filter_entry
from hutch.domain.old_event_names import RENAMED_TYPES
from hutch.store.database import open_database
from hutch.store.event_log import SqlLog, open_log
from hutch.store.exported_record_verifier import verify_record
from hutch.store.record_export import export_record

from .direct_sql import sql

pytestmark = pytest.mark.anyio
DUMP = Path(__file__).with_name("revision_0015.sql")
SESSION = SessionId("ses_01jd2m4c9k7w6t0q8n5x3vbaeh")
USER = "usr_1"


def write_dump(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(DUMP.read_text())


@pytest.fixture
async def old_log(tmp_path: Path) -> AsyncIterator[SqlLog]:
    write_dump(tmp_path / "hutch.db")
    async with open_log(tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "keys" / "signing.pem") as log:
        yield log


async def entries(log: SqlLog) -> dict[int, Entry]:
    return {entry.seq: entry for entry in await log.read(SESSION)}


async def test_old_event_types_are_read_as_the_current_ones(old_log: SqlLog) -> None:
    found = {seq: entry.event for seq, entry in (await entries(old_log)).items()}
    covers = ("bash git push",)
    assert {seq: found[seq] for seq in (2, 4, 5, 7, 8, 10, 11, 12)} == {
        2: InputProcessed(input=1, kind="prompt", by=USER),
        4: StepReached(step="inspecting", message="3 files", run_id="run_1"),
        5: JobsDetached(shell="main"),
        7: ApprovalRequested(
            call_id="c1", tool="bash", summary="git push", rule="ask bash git push*", covers=covers
        ),
        8: ApprovalAnswered(call_id="c1", allowed=True, scope="session", by=USER),
        10: EventsOmitted(
            cause="storage",
            reason="The disk was full.",
            since_ms=1,
            until_ms=2,
            count=3,
            types={"jobs.detached": 1, "shell.printed": 2},
        ),
        11: DeliveryRequested(run_id="run_1", by=USER, failing=True),
        12: ReviewSubmitted(run_id="run_1", verdict="approved", title="Fine"),
    }
    erased = found[9]
    assert isinstance(erased, ErasedEvent)
    assert (erased.type, erased.reason) == ("approval.requested", "asked for")


async def test_clients_get_the_current_names_of_old_events(old_log: SqlLog) -> None:
    for entry in (await entries(old_log)).values():
        sent = orjson.loads(entry_json(filter_entry(entry, WHOLE)))["event"]
        assert sent["type"] in EVENT_TYPES
        if isinstance(entry.event, Event):
            current = orjson.loads(to_json(entry.event))  # with the fields that were added since
            assert {**current, **sent} == current


async def test_an_old_log_keeps_its_bytes_and_its_record_verifies(old_log: SqlLog, tmp_path: Path) -> None:
    query = "SELECT seq, type, payload, hash FROM events ORDER BY seq"
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(DUMP.read_text())
        written = connection.execute(query).fetchall()
    assert sql(tmp_path / "hutch.db", query) == written
    assert RENAMED_TYPES.keys() <= {type_ for _, type_, _, _ in written}
    await export_record(old_log, SESSION, tmp_path / "record.zip", WHOLE, overwrite=False)
    report = verify_record(tmp_path / "record.zip")
    assert (report.ok, report.events, report.erased) == (True, 14, 1)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("approval_rules", "pattern", "git push"),
        ("blob_deletions", "name", "00"),
        ("stale_projections", "session_id", "ses_2"),
        ("session_removals", "session_id", "ses_3"),
        ("inputs", "processed", 1),
        ("deliveries", "request", '{"number": 7}'),
    ],
)
async def test_rows_of_renamed_tables_and_columns_stay(
    tmp_path: Path, table: str, column: str, value: object
) -> None:
    write_dump(tmp_path / "hutch.db")
    open_database(tmp_path / "hutch.db").dispose()
    assert sql(tmp_path / "hutch.db", f"SELECT {column} FROM {table}") == [(value,)]


@pytest.mark.parametrize(
    "payload", [b"{", b"[]", b'{"shell":7,"step":7}', b'{"shell":7,"types":["jobs.left"]}']
)
@pytest.mark.parametrize("type_", [*RENAMED_TYPES, "step.reached", "events.omitted"])
async def test_an_unreadable_payload_of_an_old_type_stays_unknown(payload: bytes, type_: str) -> None:
    assert not isinstance(from_json(payload, type_), Event)
