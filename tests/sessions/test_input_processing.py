"""Which inputs of before a crash are done with, whatever the clock says."""

import pytest

from hutch.domain.events import Event, InputProcessed, RunEnded, RunQueued, SessionOpened, SessionPaused
from hutch.domain.ids import new_run_id, new_session_id
from hutch.domain.redaction import Redactor
from hutch.domain.session import QueuedRun, Session
from hutch.sessions.host_dependencies_and_callbacks import HostCallbacks, HostDependencies
from hutch.sessions.input_processing import process_inputs
from hutch.sessions.live_session import LiveSession
from hutch.sessions.session_update_fan_out import Channels
from hutch.store.event_log import SqlLog
from hutch.store.run_queue import Runs, add_run
from hutch.store.session_inputs import add_input
from hutch.store.sessions import Sessions, add_session
from hutch.system.clock_without_jumps import wall_ms
from tests.sessions.test_run_worker import Held

pytestmark = pytest.mark.anyio

HOUR_MS = 3_600_000
CANCEL, PAUSE = '{"type":"cancel"}', '{"type":"pause"}'


async def _session(
    log: SqlLog, events: list[Event], bodies: list[str], taken: int
) -> tuple[LiveSession, QueuedRun]:
    """A session with a past and a run that waits; the first inputs are noted as taken."""
    session = Session(
        id=new_session_id(), owner="ada", created_ms=wall_ms(), updated_ms=wall_ms(), state="queued"
    )
    run = QueuedRun(id=new_run_id(), session_id=session.id, owner="ada", prompt="later", queued_ms=wall_ms())
    await log.append(session.id, [SessionOpened(purpose=""), *events])
    await log.change(lambda rows: (add_session(rows, session), add_run(rows, run)))
    for body in bodies:
        await log.change(lambda rows, body=body: add_input(rows, session.id, "ada", body))  # type: ignore[misc]
    held = Held(log)
    live = LiveSession(
        session.id,
        HostDependencies(
            log, log, Redactor(), Channels(log), HostCallbacks(held.prepare, held.open_sandbox, held.perform)
        ),
    )
    for seq in range(1, taken + 1):
        await live.inputs.mark_processed(session.id, seq)
    return live, run


async def _set_back(log: SqlLog) -> None:
    """As if the clock had been set back by an hour after all that is in the log."""
    for table in ("logs", "events"):
        change = f"UPDATE {table} SET at_ms = at_ms + {HOUR_MS}"
        await log.change(lambda rows, change=change: rows.exec_driver_sql(change).rowcount)  # type: ignore[misc]


PAST = RunEnded(run_id="run_before", outcome="cancelled")


async def test_a_cancel_after_the_clock_was_set_back_is_not_taken_for_an_earlier_one(log: SqlLog) -> None:
    events = [PAST, InputProcessed(input=1, kind="cancel", by="ada")]
    live, run = await _session(log, events, [CANCEL, CANCEL], taken=1)
    await _set_back(log)
    await process_inputs(live)
    ended = await Runs(log).get(run.id)
    assert (ended.state, ended.outcome) == ("ended", "cancelled")


async def test_a_pause_after_the_clock_was_set_back_is_not_taken_for_an_earlier_one(log: SqlLog) -> None:
    events = [SessionPaused(by="ada"), InputProcessed(input=1, kind="pause", by="ada")]
    live, _ = await _session(log, events, [PAUSE, PAUSE], taken=1)
    await _set_back(log)
    await process_inputs(live)
    assert (await Sessions(log).get(live.id)).state == "paused"


@pytest.mark.parametrize("set_back", [False, True])
async def test_a_cancel_whose_effect_is_in_the_log_is_not_done_twice(log: SqlLog, set_back: bool) -> None:
    """Killed between the effect and the note of it."""
    live, run = await _session(log, [PAST], [CANCEL], taken=0)
    if set_back:
        await _set_back(log)
    await process_inputs(live)
    assert (await Runs(log).get(run.id)).state == "queued"
    assert all(given.processed for given in await live.inputs.page(live.id))


async def test_one_effect_stands_for_one_input_also_after_a_second_crash(log: SqlLog) -> None:
    live, run = await _session(log, [PAST], [CANCEL], taken=0)
    await process_inputs(live)
    await log.change(lambda rows: add_input(rows, live.id, "ada", CANCEL))
    await process_inputs(LiveSession(live.id, live.dependencies))
    assert (await Runs(log).get(run.id)).state == "ended"


async def test_a_cancelled_run_that_an_undo_gave_up_is_no_effect_of_a_later_cancel(log: SqlLog) -> None:
    events = [
        PAST,
        InputProcessed(input=1, kind="undo", by="ada"),
        RunQueued(run_id="x", prompt="", by="ada"),
    ]
    live, run = await _session(log, events, ['{"type":"undo"}', CANCEL], taken=1)
    await process_inputs(live)
    assert (await Runs(log).get(run.id)).state == "ended"
