"""Events of a session reach its log in order, without secrets, and before listeners get them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hutch.agent.session_recorder import Recorder
from hutch.domain.errors import Conflict
from hutch.domain.events import (
    CommandEnded,
    CommandStarted,
    Event,
    MessageSent,
    SessionEnded,
    SessionOpened,
    ShellPrinted,
    SnapshotTaken,
)
from hutch.domain.ids import new_session_id
from hutch.domain.redaction import Redactor
from hutch.snapshots.git_storage import Snapshot
from hutch.store.event_log import open_log
from tests.deadline import DEADLINE_S
from tests.new_database import place_database

pytestmark = pytest.mark.anyio
SECRET = "correct-horse-battery"


@pytest.fixture
async def recorder(tmp_path: Path) -> AsyncIterator[Recorder]:
    place_database(tmp_path)
    async with open_log(tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "key") as log:
        made = Recorder(log, new_session_id(), Redactor([SECRET]))
        await made.append([SessionOpened(purpose="test")])
        yield made
        await made.settle()


async def logged(recorder: Recorder) -> list[Event]:
    return [entry.event for entry in await recorder.log.read(recorder.session_id, after=1)]  # type: ignore[misc]


def started(command: str) -> CommandStarted:
    return CommandStarted(shell="main", command=command, cwd="/work")


async def test_reports_are_written_before_the_next_event_and_after_the_output(recorder: Recorder) -> None:
    ended = CommandEnded(shell="main", command="ls", cwd="/work", exit_code=0, duration_s=1.0)
    printed = ShellPrinted(shell="main", stream="stdout", text="a\n")
    message = MessageSent(author="user", text="Go on.")
    recorder.report(started("ls"))
    recorder.report(ended)
    seq = await recorder.append([message], output=[printed])
    assert await logged(recorder) == [printed, started("ls"), ended, message]
    assert seq == recorder.last_seq == 5


async def test_a_report_without_a_following_event_is_written_soon(recorder: Recorder) -> None:
    recorder.report(started("ls"))
    await recorder.settle()
    assert await logged(recorder) == [started("ls")]
    assert await recorder.append() == 0


async def test_a_report_in_another_callers_append_is_confirmed_when_it_is_written(
    recorder: Recorder,
) -> None:
    recorder.report(started("ls"))
    other = asyncio.ensure_future(recorder.append([MessageSent(author="user", text="Go on.")]))
    await asyncio.sleep(0)  # the other caller has the report, and the log does not
    assert await recorder.append() == 0
    await recorder.confirm()
    assert recorder.last_seq == 3
    assert await other == 3


async def test_reports_hold_neither_secrets_nor_lone_surrogates(recorder: Recorder) -> None:
    recorder.report(started(f"echo {SECRET} \udcff"))
    await recorder.append()
    assert await logged(recorder) == [started("echo [redacted:secret] \ufffd")]


async def test_listeners_get_events_that_are_in_the_log(recorder: Recorder) -> None:
    received: list[tuple[Sequence[Event], Sequence[Event]]] = []

    async def on_events(events: Sequence[Event]) -> None:
        received.append((list(events), await logged(recorder)))

    recorder.listeners.append(on_events)
    recorder.report(started("ls"))
    message = MessageSent(author="user", text="Go on.")
    await recorder.append([message])
    assert received == [([started("ls"), message], [started("ls"), message])]


async def test_a_caller_that_is_cancelled_waits_until_its_events_are_written(recorder: Recorder) -> None:
    received = asyncio.Event()

    async def on_events(events: Sequence[Event]) -> None:
        received.set()

    recorder.listeners.append(on_events)
    message = MessageSent(author="user", text="Go on.")
    appending = asyncio.ensure_future(recorder.append([message]))
    await asyncio.sleep(0)
    appending.cancel()
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.wait([appending])
    assert appending.cancelled() and received.is_set()
    assert await logged(recorder) == [message]


async def test_reports_after_the_end_of_a_log_are_dropped(recorder: Recorder) -> None:
    ended = SessionEnded(outcome="done")
    await recorder.append([ended])
    recorder.report(started("ls"))
    with pytest.raises(Conflict):
        await recorder.append()
    recorder.report(started("ls"))
    recorder.drop_pending()
    await recorder.settle()
    assert await recorder.append() == 0
    assert await logged(recorder) == [ended]


def test_events_of_results() -> None:
    recorder = Recorder(None, new_session_id(), Redactor([SECRET]))  # type: ignore[arg-type]
    assert recorder.clean_path(f"b-{SECRET}/a\udcff") == "b-[redacted:secret]/a\ufffd"
    taken = Snapshot(7, "t" * 64, "c" * 40, datetime.fromtimestamp(0, UTC), "after bash", 1, 1, 0)
    assert recorder.snapshot_taken(taken) == SnapshotTaken(snapshot=7, tree="t" * 64, reason="after bash")
    assert recorder.snapshot_taken(taken, "again").reason == "again"
