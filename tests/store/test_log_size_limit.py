"""A log grows to its bound: output is left out first, then nothing new is begun, and it can be ended."""

from pathlib import Path

import pytest

from hutch.domain.errors import LimitReached
from hutch.domain.events import (
    CommandEnded,
    CommandStarted,
    EgressAttempted,
    EventsOmitted,
    MessageSent,
    SessionEnded,
    SessionOpened,
    ShellPrinted,
)
from hutch.domain.ids import SessionId, new_session_id
from hutch.domain.log_entry_audience import WHOLE
from hutch.store.event_log import SqlLog, open_log
from hutch.store.exported_record_verifier import verify_record
from hutch.store.record_zip_writer import write_record
from tests.store.direct_sql import sql

pytestmark = pytest.mark.anyio
LIMIT = 100_000
PRINTED = ShellPrinted(shell="main", stream="stdout", text="x" * 5000)
STARTED = CommandStarted(shell="main", command="make", cwd="/workspace")
ENDED = CommandEnded(shell="main", command="make", cwd="/workspace", exit_code=0, duration_s=1.0)
ATTEMPTED = EgressAttempted(method="GET", host="example.com", port=443, allowed=False)


async def _omitted(log: SqlLog, session_id: SessionId) -> list[EventsOmitted]:
    entries = await log.read(session_id, limit=5000)
    return [entry.event for entry in entries if isinstance(entry.event, EventsOmitted)]


async def test_output_beyond_the_bound_is_left_out_and_counted(tmp_path: Path) -> None:
    place = (tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "key.pem")
    session_id = new_session_id()
    async with open_log(*place, log_bytes=LIMIT) as log:
        await log.append(session_id, [SessionOpened(), STARTED])
        for _ in range(100):
            await log.append(session_id, [PRINTED])
        kept = sum(entry.event.type == "shell.printed" for entry in await log.read(session_id))
        assert 0.6 * LIMIT < kept * 5000 < 0.75 * LIMIT
        assert [(each.cause, each.types) for each in await _omitted(log, session_id)] == [
            ("limit", {"shell.printed": 1})
        ]
    async with open_log(*place, log_bytes=LIMIT) as log:  # the count survives
        await log.append(session_id, [ENDED])
        omitted = await _omitted(log, session_id)
        assert [each.count for each in omitted] == [1, 99 - kept]
        assert "sessions.log_bytes" in omitted[1].reason and omitted[1].payload_bytes > 5000 * (99 - kept)
        size = sql(place[0], "SELECT payload_bytes FROM logs")[0][0]
        assert size == sum(len(entry.payload) for entry in await log.read(session_id)) < LIMIT


async def test_a_full_log_refuses_what_begins_and_takes_what_ends(tmp_path: Path) -> None:
    place = (tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "key.pem")
    session_id = new_session_id()
    async with open_log(*place, log_bytes=LIMIT) as log:
        await log.append(session_id, [SessionOpened(), STARTED])
        await log.append(session_id, [MessageSent(author="agent", text="y" * LIMIT)])
        for refused in (log.append(session_id, [STARTED]), log.check_can_record(session_id)):
            with pytest.raises(LimitReached, match=r"raise sessions\.log_bytes") as error:
                await refused
            assert error.value.limit == "sessions.log_bytes"
        assert not log.can_record(session_id)
        await log.append(session_id, [ATTEMPTED] * 1000)
        await log.append(session_id, [ENDED])
        await log.append(session_id, [SessionEnded(outcome="done")])
        assert (await log.head(session_id)).seq == 6
        assert [each.types for each in await _omitted(log, session_id)] == [{"egress.attempted": 1000}]
        async with log.evidence(session_id, WHOLE) as evidence:
            await write_record(
                tmp_path / "record.zip",
                session_id=session_id,
                records=evidence.records,
                statements=evidence.statements,
                public_keys=evidence.public_keys,
                overwrite=False,
            )
    assert verify_record(tmp_path / "record.zip").problem is None


async def test_a_bound_that_was_raised_lets_output_in_again(tmp_path: Path) -> None:
    place = (tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "key.pem")
    session_id = new_session_id()
    async with open_log(*place, log_bytes=LIMIT) as log:
        await log.append(session_id, [SessionOpened(), *[PRINTED] * 100])
        omitted = [each.count for each in await _omitted(log, session_id)]
    async with open_log(*place, log_bytes=2 * LIMIT) as log:
        await log.append(session_id, [PRINTED])
        assert (await log.read(session_id))[-1].event == PRINTED
        assert [each.count for each in await _omitted(log, session_id)] == omitted
