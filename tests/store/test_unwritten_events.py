"""Events from the time when the database could not be written are in the log, or counted there."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hutch.domain.errors import Unavailable
from hutch.domain.events import (
    CommandEnded,
    CommandStarted,
    Event,
    EventsOmitted,
    FileChanged,
    JobsDetached,
    JobsEnded,
    MessageSent,
    SessionOpened,
    ShellPrinted,
)
from hutch.domain.ids import SessionId, new_session_id
from hutch.domain.log_entry_audience import WHOLE
from hutch.store.event_log import SqlLog, open_log
from hutch.store.unwritten_events import MAX_BUFFERED_EVENTS

pytestmark = pytest.mark.anyio
STARTED = CommandStarted(shell="main", command="make", cwd="/workspace")
ENDED = CommandEnded(shell="main", command="make", cwd="/workspace", exit_code=0, duration_s=1.0)
PRINTED = ShellPrinted(shell="main", stream="stdout", text="done")
CHANGED = FileChanged(path="a.py", kind="created", before=None, after="0" * 64)
MESSAGE = MessageSent(author="user", text="hello")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another process holds the write lock, and for longer than anybody waits."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


async def _events(log: SqlLog, session_id: SessionId) -> list[Event]:
    return [entry.event for entry in await log.read(session_id) if isinstance(entry.event, Event)]


async def test_a_gap_is_written_before_anything_else_and_signed(tmp_path: Path) -> None:
    path = tmp_path / "hutch.db"
    async with open_log(path, tmp_path / "blobs", tmp_path / "key.pem", busy_timeout_s=0.05) as log:
        session_id = new_session_id()
        await log.append(session_id, [SessionOpened()])
        with locked(path):
            for events in ([STARTED], [PRINTED, PRINTED], [ENDED, MESSAGE], [CHANGED]):
                with pytest.raises(Unavailable, match="locked"):
                    await log.append(session_id, events)
            with pytest.raises(Unavailable, match="locked"):
                await log.check_can_record(session_id)
            with pytest.raises(Unavailable, match="locked"):
                await log.flush(session_id)
            assert not log.can_record(session_id)
        await log.append(session_id, [MESSAGE])
        await log.check_can_record(session_id)
        assert log.can_record(session_id)
        opened, omitted, *later = await _events(log, session_id)
        assert isinstance(omitted, EventsOmitted)
        assert [opened, *later] == [SessionOpened(), ENDED, CHANGED, MESSAGE]
        assert (omitted.cause, omitted.count, omitted.types, omitted.late) == (
            "storage",
            2,
            {"shell.printed": 2},
            2,
        )
        async with log.evidence(session_id, WHOLE) as evidence:
            signed = [said.seq for said in evidence.statements if said.kind == "checkpoint"]
            assert signed in ([5], [1, 5])  # the first is signed by time if all this takes 5 s


async def test_jobs_that_commands_left_running_are_written_late(tmp_path: Path) -> None:
    path = tmp_path / "hutch.db"
    happened = [JobsDetached(shell="main"), ENDED, JobsDetached(terminal="1"), JobsEnded(shell="main")]
    async with open_log(path, tmp_path / "blobs", tmp_path / "key.pem", busy_timeout_s=0.05) as log:
        session_id = new_session_id()
        await log.append(session_id, [SessionOpened()])
        with locked(path), pytest.raises(Unavailable):
            await log.append(session_id, happened)
        await log.append(session_id, [MESSAGE])
        _, omitted, *later = await _events(log, session_id)
        assert isinstance(omitted, EventsOmitted)
        assert (omitted.late, later) == (4, [*happened, MESSAGE])


async def test_a_gap_is_written_by_itself_when_nobody_writes(tmp_path: Path) -> None:
    path = tmp_path / "hutch.db"
    async with open_log(path, tmp_path / "blobs", tmp_path / "key.pem", busy_timeout_s=0.05) as log:
        session_id = new_session_id()
        await log.append(session_id, [SessionOpened()])
        with locked(path), pytest.raises(Unavailable):
            await log.append(session_id, [ENDED])
        found = [entry.event.type async for entry in _first(log, session_id, 3)]
    assert found == ["session.opened", "events.omitted", "command.ended"]


async def test_what_is_kept_in_memory_is_bounded_and_the_rest_counted(tmp_path: Path) -> None:
    path = tmp_path / "hutch.db"
    async with open_log(path, tmp_path / "blobs", tmp_path / "key.pem", busy_timeout_s=0.05) as log:
        session_id = new_session_id()
        await log.append(session_id, [SessionOpened()])
        with locked(path), pytest.raises(Unavailable):
            await log.append(session_id, [ENDED] * (MAX_BUFFERED_EVENTS + 7))
        await log.append(session_id, [MESSAGE])
        omitted = (await _events(log, session_id))[1]
        assert isinstance(omitted, EventsOmitted)
        assert (omitted.types, omitted.late) == ({"command.ended": 7}, MAX_BUFFERED_EVENTS)
        assert (await log.head(session_id)).seq == 2 + MAX_BUFFERED_EVENTS + 1


async def _first(log: SqlLog, session_id: SessionId, count: int):  # type: ignore[no-untyped-def]
    async for entry in log.follow(session_id):
        yield entry
        if entry.seq == count:
            return
