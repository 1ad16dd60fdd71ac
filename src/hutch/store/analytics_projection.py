"""Analytics as rows: a projection of all logs into counts and latencies by minute, hour and day.

Each session has its own rows, and the sums over all sessions have theirs. Both change in one transaction: an
erased session is subtracted from the sums.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, Table, delete, select, tuple_, update
from sqlalchemy.dialects.sqlite import insert

from hutch.domain.events import Entry
from hutch.store.analytics_columns import COUNT_COLUMNS, HISTOGRAM_COLUMNS
from hutch.store.analytics_from_events import (
    COUNTS,
    MINUTE_MS,
    TYPES,
    AnalyticsChange,
    AnalyticsState,
    RunState,
    SessionFacts,
    fold_analytics,
)
from hutch.store.analytics_tables import (
    analytics_counts,
    analytics_latencies,
    analytics_runs,
    analytics_session_counts,
    analytics_session_latencies,
    analytics_sessions,
)
from hutch.system.clock_without_jumps import wall_ms

NAME = "analytics"
HOUR_MS, DAY_MS = 60 * MINUTE_MS, 24 * 60 * MINUTE_MS
RETENTION_MS = {MINUTE_MS: 2 * DAY_MS, HOUR_MS: 90 * DAY_MS, DAY_MS: 1_100 * DAY_MS}
"""How long rows of each step stay: minutes for two days, hours for 90, days for three years."""
_PAIRS = (
    (analytics_session_counts, analytics_counts, COUNT_COLUMNS.split()),
    (analytics_session_latencies, analytics_latencies, HISTOGRAM_COLUMNS.split()),
)
_read_counts = attrgetter(*COUNTS)
Rows = dict[tuple[Any, ...], list[int]]


class AnalyticsProjection:
    """Folds all logs into counts and latencies."""

    name = NAME
    version = 2
    types: Collection[str] = TYPES

    def read_state(self, connection: Connection, session_ids: Collection[str]) -> AnalyticsState:
        if not session_ids:
            return AnalyticsState()
        table, runs = analytics_sessions, analytics_runs
        facts = connection.execute(select(table).where(table.c.session_id.in_(session_ids)))
        found = connection.execute(select(runs).where(runs.c.session_id.in_(session_ids)))
        return AnalyticsState(
            {row[0]: SessionFacts(*row[1:]) for row in facts},
            {(row[0], row[1]): RunState(*row[2:]) for row in found},
        )

    def fold(self, state: AnalyticsState, entries: Sequence[Entry]) -> AnalyticsChange:
        return fold_analytics(state, entries)

    def write(
        self,
        connection: Connection,
        state: AnalyticsState,
        changes: Sequence[AnalyticsChange],
        without: Collection[str],
    ) -> None:
        now_ms = wall_ms()
        for change in changes:
            counts = ((key, [*_read_counts(value)]) for key, value in change.counts.items())
            latencies = (
                (key, [value.count, value.total_ms, *value.bins]) for key, value in change.latencies.items()
            )
            for pair, found in zip(_PAIRS, (counts, latencies), strict=True):
                rows = _rolled_up((each for each in found if each[0][0] not in without), now_ms)
                _add(connection, pair[0], rows, pair[2])
                _add(connection, pair[1], _summed(rows), pair[2])
        facts = [
            {"session_id": session_id, **asdict(each)}
            for session_id, each in state.sessions.items()
            if session_id not in without
        ]
        runs = [
            {"session_id": session_id, "run_id": run_id, **asdict(run)}
            for (session_id, run_id), run in state.runs.items()
            if session_id not in without
        ]
        _replace(connection, analytics_sessions, facts, ("session_id",))
        _replace(connection, analytics_runs, runs, ("session_id", "run_id"))

    def clear(self, connection: Connection, session_id: str | None) -> None:
        for own, sums, columns in _PAIRS:
            if session_id is None:
                connection.execute(delete(own))
                connection.execute(delete(sums))
            else:
                _subtract(connection, own, sums, columns, session_id)
                connection.execute(delete(own).where(own.c.session_id == session_id))
        for table in (analytics_sessions, analytics_runs):
            statement = delete(table)
            connection.execute(
                statement if session_id is None else statement.where(table.c.session_id == session_id)
            )


def erase_analytics(connection: Connection, session_id: str) -> None:
    """Remove a session from the analytics, until the rest of its log is counted again.

    `note_erasure` must have marked the log in the same transaction.
    """
    AnalyticsProjection().clear(connection, session_id)


def prune_analytics(connection: Connection, now_ms: int) -> None:
    """Delete rows that are older than the retention of their step."""
    for own, sums, _ in _PAIRS:
        for table in (own, sums):
            for step_ms, kept_ms in RETENTION_MS.items():
                is_old = (table.c.step_ms == step_ms) & (table.c.at_ms < now_ms - kept_ms)
                connection.execute(delete(table).where(is_old))


def _rolled_up(found: Iterable[tuple[tuple[Any, ...], list[int]]], now_ms: int) -> Rows:
    """Rows by session and step from those by session and minute, without those that are too old."""
    rows: Rows = {}
    for (session_id, at_ms, *names), values in found:
        for step_ms, kept_ms in RETENTION_MS.items():
            begin_ms = at_ms - at_ms % step_ms
            if begin_ms >= now_ms - kept_ms:
                _sum(rows, (session_id, step_ms, begin_ms, *names), values)
    return rows


def _summed(rows: Rows) -> Rows:
    """The same rows over all sessions."""
    sums: Rows = {}
    for key, values in rows.items():
        _sum(sums, key[1:], values)
    return sums


def _sum(rows: Rows, key: tuple[Any, ...], values: list[int]) -> None:
    found = rows.get(key)
    rows[key] = list(values) if found is None else [a + b for a, b in zip(found, values, strict=True)]


def _add(connection: Connection, table: Table, rows: Rows, columns: Sequence[str]) -> None:
    if not rows:
        return
    keys = [column.name for column in table.primary_key]
    adding = insert(table)
    sums = {name: table.c[name] + adding.excluded[name] for name in columns}
    names = [*keys, *columns]
    values = [dict(zip(names, (*key, *row), strict=True)) for key, row in rows.items()]
    connection.execute(adding.on_conflict_do_update(index_elements=keys, set_=sums), values)


def _replace(
    connection: Connection, table: Table, rows: Sequence[dict[str, Any]], keys: Sequence[str]
) -> None:
    if not rows:
        return
    adding = insert(table)
    now = {name: adding.excluded[name] for name in rows[0] if name not in keys}
    connection.execute(adding.on_conflict_do_update(index_elements=list(keys), set_=now), rows)


def _subtract(
    connection: Connection, own: Table, sums: Table, columns: Sequence[str], session_id: str
) -> None:
    """Take the rows of a session out of the sums, and delete sums that become empty."""
    keys = [column.name for column in sums.primary_key]
    is_same = (own.c.session_id == session_id, *(own.c[name] == sums.c[name] for name in keys))
    less = {name: sums.c[name] - own.c[name] for name in columns}
    connection.execute(update(sums).where(*is_same).values(less))
    touched = select(*(own.c[name] for name in keys)).where(own.c.session_id == session_id)
    is_empty = (sums.c[name] == 0 for name in columns)
    is_touched = tuple_(*(sums.c[name] for name in keys)).in_(touched)
    connection.execute(delete(sums).where(is_touched, *is_empty))
