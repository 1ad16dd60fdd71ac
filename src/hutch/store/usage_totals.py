"""Usage totals, as rows: a projection of all logs, and its queries."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Literal

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.dialects.sqlite import insert

from hutch.domain.events import Entry
from hutch.store.projections import note_erasure, read_newest, read_position
from hutch.store.schema import usage, usage_runs, usage_sessions
from hutch.store.table_access_interface import Rows
from hutch.store.usage_from_events import COUNTS, NANO, TYPES, RunState, UsageChange, UsageState, fold_usage
from hutch.system.lazy_dataclass import dataclass

NAME = "usage"
KEY = ("session_id", "user_id", "model", "persona", "day")
UsageGroup = Literal["user", "model", "persona", "day", "session"]
_COLUMNS = {
    "user": usage.c.user_id,
    "model": usage.c.model,
    "persona": usage.c.persona,
    "day": usage.c.day,
    "session": usage.c.session_id,
}


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """The usage of one user, model, persona, day or session."""

    key: str
    runs: int
    turns: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_usd: float  # of replies with a price
    unpriced: int  # replies without one
    tool_calls: int
    tool_errors: int
    duration_s: float


class UsageProjection:
    """Folds all logs into totals per session, user, model, persona and day."""

    name = NAME
    version = 1
    types: Collection[str] = TYPES

    def read_state(self, connection: Connection, session_ids: Collection[str]) -> UsageState:
        if not session_ids:
            return UsageState()
        users = select(usage_sessions).where(usage_sessions.c.session_id.in_(session_ids))
        runs = select(usage_runs).where(usage_runs.c.session_id.in_(session_ids))
        return UsageState(
            {row.session_id: row.user_id for row in connection.execute(users)},
            {
                (row.session_id, row.run_id): RunState(row.model, row.persona, row.duration_ms)
                for row in connection.execute(runs)
            },
        )

    def fold(self, state: UsageState, entries: Sequence[Entry]) -> UsageChange:
        return fold_usage(state, entries)

    def write(
        self,
        connection: Connection,
        state: UsageState,
        changes: Sequence[UsageChange],
        without: Collection[str],
    ) -> None:
        adding = insert(usage)
        sums = {name: usage.c[name] + adding.excluded[name] for name in COUNTS}
        adding = adding.on_conflict_do_update(index_elements=KEY, set_=sums)
        for change in changes:
            rows = [
                {**key._asdict(), **asdict(totals)}
                for key, totals in change.items()
                if key.session_id not in without
            ]
            if rows:
                connection.execute(adding, rows)
        for session_id, user_id in state.users.items():
            if session_id not in without:
                owner = insert(usage_sessions).values(session_id=session_id, user_id=user_id)
                connection.execute(owner.on_conflict_do_nothing())
        for (session_id, run_id), run in state.runs.items():
            if session_id not in without:
                made = insert(usage_runs).values(session_id=session_id, run_id=run_id, **asdict(run))
                now = made.on_conflict_do_update(index_elements=["session_id", "run_id"], set_=asdict(run))
                connection.execute(now)

    def clear(self, connection: Connection, session_id: str | None) -> None:
        for table in (usage, usage_sessions, usage_runs):
            statement = delete(table)
            connection.execute(
                statement if session_id is None else statement.where(table.c.session_id == session_id)
            )


def erase_usage(connection: Connection, session_id: str) -> None:
    """Remove a session from the totals, until the rest of its log is counted again."""
    note_erasure(connection, session_id)
    UsageProjection().clear(connection, session_id)


class Usage:
    """Reads the totals."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def page(
        self,
        group: UsageGroup,
        *,
        user_id: str | None = None,
        first_day: str = "",
        last_day: str = "",
        offset: int = 0,
        limit: int = 50,
    ) -> list[UsageTotal]:
        """Totals by key; of sessions of one user, or of all with None. Days are inclusive."""
        key = _COLUMNS[group]
        sums = [func.sum(usage.c[name]).label(name) for name in COUNTS]
        statement = select(key.label("key"), *sums).group_by(key).order_by(key)
        if user_id is not None:
            statement = statement.where(usage.c.user_id == user_id)
        if first_day:
            statement = statement.where(usage.c.day >= first_day)
        if last_day:
            statement = statement.where(usage.c.day <= last_day)
        statement = statement.offset(offset).limit(limit)
        found = await self._rows.fetch(lambda connection: connection.execute(statement).mappings().all())
        return [_total(dict(row)) for row in found]

    async def count_unprocessed(self) -> int:
        """The number of newest events that are not in the totals yet."""
        return await self._rows.fetch(
            lambda connection: max(0, read_newest(connection) - read_position(connection, NAME))
        )


def _total(row: dict[str, object]) -> UsageTotal:
    cost, duration_ms = int(str(row.pop("cost_nano_usd"))), int(str(row.pop("duration_ms")))
    return UsageTotal(
        **row,  # type: ignore[arg-type]
        cost_usd=cost / NANO,
        duration_s=duration_ms / 1000,
    )
