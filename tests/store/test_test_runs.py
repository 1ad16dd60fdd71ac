"""Rows of test runs: bounded, erased with their log, removed with their session."""

from pathlib import Path

import pytest

from hutch.domain.events import SessionOpened
from hutch.domain.ids import new_session_id, new_test_run_id
from hutch.domain.recorded_test_runs import RecordedCase, RecordedRun, compare_outcomes
from hutch.store import test_runs
from hutch.store.event_log import SqlLog, open_log
from hutch.store.test_runs import StoredTests

pytestmark = pytest.mark.anyio


async def add(
    log: SqlLog, session_id: str, *names: str, outcome: str = "passed", **values: object
) -> RecordedRun:
    """A run of these tests."""
    run = RecordedRun(id=new_test_run_id(), session_id=session_id, total=len(names), **values)  # type: ignore[arg-type]
    stored = StoredTests(log)
    await log.change(stored.adding(run))
    ended = RecordedRun(**{name: getattr(run, name) for name in run.__slots__} | {"state": outcome})
    cases = [RecordedCase("pytest", name, outcome, message="m") for name in names]  # type: ignore[arg-type]
    await log.change(stored.ending(ended, cases))
    return await stored.get(session_id, run.id)


async def test_lists_of_older_runs_are_deleted_and_totals_stay(tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(test_runs.MAX_SESSION_CASES // 2)]
    async with open_log(tmp_path / "db", tmp_path / "blobs", tmp_path / "key") as log:
        session = new_session_id()
        runs = [await add(log, session, *names) for _ in range(3)]
        stored = StoredTests(log)
        kept = [(await stored.get(session, run.id)).stored for run in runs]
        first = await stored.get(session, runs[0].id)
        assert kept == [0, len(names), len(names)]
        assert (first.total, await stored.cases(first)) == (len(names), [])


async def test_pages_filters_and_names(tmp_path: Path) -> None:
    async with open_log(tmp_path / "db", tmp_path / "blobs", tmp_path / "key") as log:
        session, stored = new_session_id(), StoredTests(log)
        runs = [await add(log, session, f"a{number}", "b_%") for number in range(3)]
        await add(log, new_session_id(), "other")
        newest = await stored.page(session, limit=2)
        assert [run.id for run in newest] == [runs[2].id, runs[1].id]
        assert [run.id for run in await stored.page(session, before=newest[-1].id)] == [runs[0].id]
        found = await stored.cases(runs[2], text="_%", outcomes=["passed"])
        assert [(number, case.name) for number, case in found] == [(1, "b_%")]
        assert await stored.cases(runs[2], outcomes=["failed"]) == []
        assert (await stored.get(session, "last")).id == runs[2].id


async def test_runs_of_processes_that_ended_are_lost(tmp_path: Path) -> None:
    async with open_log(tmp_path / "db", tmp_path / "blobs", tmp_path / "key") as log:
        stored, here, elsewhere = StoredTests(log), new_session_id(), new_session_id()
        for session in (here, elsewhere):
            await log.change(stored.adding(RecordedRun(id=new_test_run_id(), session_id=session)))
        await stored.mark_lost(excluding=[elsewhere])
        states = [(await stored.get(session, "last")).state for session in (here, elsewhere)]
        assert states == ["lost", "running"]


async def test_an_erasure_deletes_the_lists_of_tests(tmp_path: Path) -> None:
    async with open_log(tmp_path / "db", tmp_path / "blobs", tmp_path / "key") as log:
        session = new_session_id()
        await log.append(session, [SessionOpened(purpose="x" * 20)])
        run = await add(log, session, "secret", command="run secret")
        await log.erase(session, None, reason="asked")
        found = await StoredTests(log).get(session, run.id)
        assert (await StoredTests(log).cases(found), found.stored, found.command) == ([], 0, "(erased)")


def test_runs_are_compared_by_the_tests_that_both_have() -> None:
    before = {("s", "a"): "failed", ("s", "b"): "passed", ("s", "c"): "passed", ("s", "gone"): "failed"}
    now = {("s", "a"): "passed", ("s", "b"): "failed", ("s", "c"): "skipped", ("s", "new"): "failed"}
    found = compare_outcomes("1", before, "2", now)  # type: ignore[arg-type]
    assert (found.fixed, found.broke, found.other) == ([("s", "a")], [("s", "b")], [("s", "c")])
    assert (found.added, found.removed, found.unchanged) == ([("s", "new")], [("s", "gone")], 0)
