"""The test runs of sessions and each of their tests, as rows.

A run's rows are written in the transaction of its events. Rows are bounded: of a session's older runs only
the totals stay.
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Connection,
    Dialect,
    Row,
    RowMapping,
    Select,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from hutch.domain.errors import NotFound
from hutch.domain.one_line_text import echo
from hutch.domain.recorded_test_runs import CaseKey, KnownOutcomes, PastOutcome, RecordedCase, RecordedRun
from hutch.domain.test_run_events import Outcome
from hutch.store.event_log_interface import AlsoWrite
from hutch.store.schema import sessions
from hutch.store.table_access_interface import Rows
from hutch.store.test_run_tables import test_cases, test_runs

MAX_SESSION_CASES = 100_000  # rows of all runs of a session
MAX_SESSION_RUNS = 1000
MAX_RUNS_SEARCHED = 50  # for the last outcome of a test
CASES = "suite name outcome duration_us message file line selector"
US = 1_000_000


@cache
def _insert_case(dialect: Dialect) -> str:
    names = ["run_position", "number", *CASES.split()]
    return str(insert(test_cases).compile(dialect=dialect, column_keys=names))


class StoredTests:
    """Reads and writes test runs."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    # --- written with the events of a run ---

    def adding(self, run: RecordedRun) -> AlsoWrite:
        """Add the row of a run that begins."""
        return lambda connection: connection.execute(insert(test_runs).values(asdict(run)))

    def ending(self, run: RecordedRun, cases: Sequence[RecordedCase]) -> AlsoWrite:
        """Complete the row of a run, and add its tests."""

        def write(connection: Connection) -> None:
            values = {**asdict(run), "stored": len(cases)}
            connection.execute(update(test_runs).where(test_runs.c.id == run.id).values(values))
            position = connection.scalar(select(test_runs.c.position).where(test_runs.c.id == run.id))
            rows = [
                (position, number, *case[:3], int(case.duration_s * US), *case[4:])
                for number, case in enumerate(cases)
            ]
            if rows:
                connection.exec_driver_sql(_insert_case(connection.dialect), rows)
            _delete_old(connection, run.session_id)

        return write

    async def mark_lost(self, *, excluding: Collection[str] = ()) -> None:
        """Mark the runs of processes that have ended without a result, except in these sessions."""
        is_lost = (test_runs.c.state == "running", test_runs.c.session_id.not_in(excluding))
        statement = update(test_runs).where(*is_lost).values(state="lost")
        await self._rows.change(lambda connection: connection.execute(statement))

    # --- for the next run ---

    async def failed_in_last_run(self, session_id: str) -> list[RecordedCase] | None:
        """The tests whose last outcome is a failure; None when no test has run."""
        newest = await self._newest(session_id)
        if newest is None:
            return None
        return [case for case in newest.values() if case.outcome == "failed"]

    async def named(self, session_id: str, names: Collection[str]) -> list[RecordedCase]:
        """The tests that are called so, in the newest runs."""
        newest = await self._newest(
            session_id, test_cases.c.name.in_(names) | test_cases.c.selector.in_(names)
        )
        return list((newest or {}).values())

    async def last_outcomes(self, session_id: str, *, before: str) -> KnownOutcomes | None:
        """How each test last ended before this run, back to a run of all tests; None when none ran."""

        def fetch(connection: Connection) -> KnownOutcomes | None:
            position = select(test_runs.c.position).where(test_runs.c.id == before).scalar_subquery()
            earlier = (test_runs.c.position < position, test_runs.c.stored > 0)
            wanted = _ended(connection, session_id).where(*earlier)
            runs = connection.execute(wanted.limit(MAX_RUNS_SEARCHED)).all()
            newest: dict[CaseKey, Outcome] = {}
            for run in runs:
                newest = {**_outcomes(connection, run).outcomes, **newest}
                if _is_whole(run):
                    break
            return KnownOutcomes(runs[0].id, newest) if runs else None

        return await self._rows.fetch(fetch)

    # --- for readers ---

    async def page(self, session_id: str, *, before: str = "", limit: int = 50) -> list[RecordedRun]:
        """The runs of a session, newest first."""
        statement = select(test_runs).where(test_runs.c.session_id == session_id)
        if before:
            statement = statement.where(test_runs.c.id < before)
        statement = statement.order_by(test_runs.c.id.desc()).limit(limit)
        found = await self._rows.fetch(lambda connection: connection.execute(statement).mappings().all())
        return [_run(row) for row in found]

    async def get(self, session_id: str, id: str) -> RecordedRun:
        """One run of a session; `last` is its newest."""
        statement = select(test_runs).where(test_runs.c.session_id == session_id)
        statement = statement.order_by(test_runs.c.id.desc()).limit(1)
        if id != "last":
            statement = statement.where(test_runs.c.id == id)
        row = await self._rows.fetch(lambda connection: connection.execute(statement).mappings().first())
        if row is None:
            what = (
                "No tests have run in this session yet."
                if id == "last"
                else f"There is no test run {echo(id)}."
            )
            raise NotFound(what)
        return _run(row)

    async def cases(
        self,
        run: RecordedRun,
        *,
        outcomes: Collection[str] = (),
        text: str = "",
        after: int = 0,
        limit: int = 100,
    ) -> list[tuple[int, RecordedCase]]:
        """Tests of a run with their numbers, from `after` on, in the order in which they were reported."""
        of_run = select(test_runs.c.position).where(test_runs.c.id == run.id).scalar_subquery()
        where = [test_cases.c.run_position == of_run, test_cases.c.number >= after]
        if outcomes:
            where.append(test_cases.c.outcome.in_(outcomes))
        if text:
            within = (
                column.contains(text, autoescape=True) for column in (test_cases.c.name, test_cases.c.file)
            )
            where.append(or_(*within))
        columns = [test_cases.c[name] for name in CASES.split()]
        statement = (
            select(test_cases.c.number, *columns).where(*where).order_by(test_cases.c.number).limit(limit)
        )
        found = await self._rows.fetch(lambda connection: connection.execute(statement).all())
        return [(row[0], _case(row[1:])) for row in found]

    async def outcomes(self, run: RecordedRun) -> KnownOutcomes:
        """How each test of a run ended."""

        def fetch(connection: Connection) -> KnownOutcomes:
            where = test_runs.c.id == run.id
            return _outcomes(connection, connection.execute(select(test_runs).where(where)).one())

        return await self._rows.fetch(fetch)

    async def history(self, session_id: str, suite: str, name: str, *, limit: int) -> list[PastOutcome]:
        """The last outcomes of one test, newest first."""

        def fetch(connection: Connection) -> list[PastOutcome]:
            runs = _ended(connection, session_id).where(test_runs.c.stored > 0)
            newest = runs.limit(MAX_RUNS_SEARCHED).subquery()
            same = (test_cases.c.run_position == newest.c.position) & (test_cases.c.name == name)
            columns = (test_cases.c.outcome, test_cases.c.duration_us, test_cases.c.message)
            found = select(newest.c.id, newest.c.ended_ms, *columns).join(test_cases, same)
            found = found.where(test_cases.c.suite == suite) if suite else found
            rows = connection.execute(found.order_by(newest.c.position.desc()).limit(limit))
            return [PastOutcome(id, at_ms, end, us / US, text) for id, at_ms, end, us, text in rows]

        return await self._rows.fetch(fetch)

    async def _newest(
        self, session_id: str, where: ColumnElement[bool] | None = None
    ) -> dict[CaseKey, RecordedCase] | None:
        """Each test as it last ended, back to the last run of all tests; None when there was no run."""

        def fetch(connection: Connection) -> dict[CaseKey, RecordedCase] | None:
            runs = connection.execute(_ended(connection, session_id).limit(MAX_RUNS_SEARCHED)).all()
            newest: dict[CaseKey, RecordedCase] = {}
            columns = [test_cases.c[name] for name in CASES.split()]
            for run in runs:
                statement = select(*columns).where(test_cases.c.run_position == run.position)
                statement = statement if where is None else statement.where(where)
                for row in connection.execute(statement):
                    newest.setdefault((row.suite, row.name), _case(row))
                if _is_whole(run):
                    break
            return newest if runs else None

        return await self._rows.fetch(fetch)


def delete_tests(connection: Connection, session_id: str, *, cases_only: bool = False) -> None:
    """Delete the tests of a session's runs, and the runs."""
    own = select(test_runs.c.position).where(test_runs.c.session_id == session_id)
    connection.execute(delete(test_cases).where(test_cases.c.run_position.in_(own)))
    here = test_runs.c.session_id == session_id
    statement = (
        update(test_runs).where(here).values(stored=0) if cases_only else delete(test_runs).where(here)
    )
    connection.execute(statement)


def _ended(connection: Connection, session_id: str) -> Select[Any]:
    """The ended runs of a session, newest first.

    Commands in a user's own directory are sessions of their own: they continue the runs of that directory.
    """
    own = connection.execute(select(sessions).where(sessions.c.id == session_id)).first()
    in_place = func.json_extract(sessions.c.delivery, "$.in_place", type_=Boolean)
    here: ColumnElement[bool] = test_runs.c.session_id == session_id
    if own is not None and connection.scalar(select(in_place).where(sessions.c.id == session_id)):
        same = (sessions.c.repository == own.repository, sessions.c.owner == own.owner, in_place.is_(True))
        here = test_runs.c.session_id.in_(select(sessions.c.id).where(*same))
    states = test_runs.c.state.in_(("passed", "failed", "cancelled"))
    return select(test_runs).where(here, states).order_by(test_runs.c.position.desc())


def _is_whole(run: Row[Any]) -> bool:
    """True if a run reported all tests that there were."""
    return run.state != "cancelled" and not run.partial and run.total > 0


def _outcomes(connection: Connection, run: Row[Any]) -> KnownOutcomes:
    columns = (test_cases.c.suite, test_cases.c.name, test_cases.c.outcome)
    found = connection.execute(select(*columns).where(test_cases.c.run_position == run.position))
    outcomes: dict[CaseKey, Outcome] = {(row[0], row[1]): row[2] for row in found}
    return KnownOutcomes(run.id, outcomes)


def _delete_old(connection: Connection, session_id: str) -> None:
    """Delete the tests of older runs over the limit of the session, and then the runs."""
    runs = select(test_runs.c.position, test_runs.c.stored).where(test_runs.c.session_id == session_id)
    total = 0
    for number, row in enumerate(connection.execute(runs.order_by(test_runs.c.position.desc())).all()):
        total += row.stored
        if number and total > MAX_SESSION_CASES and row.stored:
            connection.execute(delete(test_cases).where(test_cases.c.run_position == row.position))
            connection.execute(update(test_runs).where(test_runs.c.position == row.position).values(stored=0))
            total -= row.stored
        if number >= MAX_SESSION_RUNS:
            connection.execute(delete(test_cases).where(test_cases.c.run_position == row.position))
            connection.execute(delete(test_runs).where(test_runs.c.position == row.position))


def _run(row: RowMapping) -> RecordedRun:
    return RecordedRun(**{name: value for name, value in row.items() if name != "position"})


def _case(values: Any) -> RecordedCase:
    suite, name, outcome, duration_us, message, file, line, selector = values
    return RecordedCase(suite, name, outcome, duration_us / US, message, file, line, selector)
