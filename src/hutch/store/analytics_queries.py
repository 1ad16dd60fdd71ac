"""Queries of the analytics: counts, latencies and outcomes, as one user may see them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Subquery,
    Table,
    case,
    func,
    literal,
    literal_column,
    select,
    union_all,
)

from hutch.store.analytics_columns import COUNT_COLUMNS, HISTOGRAM_COLUMNS
from hutch.store.analytics_projection import DAY_MS, NAME, prune_analytics
from hutch.store.analytics_tables import (
    analytics_counts,
    analytics_latencies,
    analytics_runs,
    analytics_session_counts,
    analytics_session_latencies,
    analytics_sessions,
)
from hutch.store.helper_ancestors import HELPER_ANCESTORS, helper_roots
from hutch.store.projections import read_newest, read_position
from hutch.store.schema import changes, logs, users
from hutch.store.shares import shared_with
from hutch.store.table_access_interface import Rows
from hutch.store.task_tables import task_assignments, task_links, tasks
from hutch.system.lazy_dataclass import dataclass

AnalyticsGroup = Literal["all", "model", "user", "repository", "persona", "session", "task"]
MAX_ROWS = 1_000
Counted = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Window:
    """The times and places of a query. `user_id`: only what this user may see; None: everything."""

    step_ms: int
    from_ms: int
    to_ms: int  # not included
    viewer: str | None = None
    repository: str = ""
    user: str = ""
    model: str = ""
    persona: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """The counts of one key, and of one time if the query is by time."""

    key: str
    at_ms: int
    counts: Counted


@dataclass(frozen=True, slots=True)
class RunCost:
    """The cost of a run with its helpers, and its limit."""

    session_id: str
    run_id: str
    cost_nano_usd: int
    limit_nano_usd: int


class Analytics:
    """Reads the rows of the analytics."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def counts(
        self, window: Window, group: AnalyticsGroup, *, by_time: bool = False, keys: Sequence[str] = ()
    ) -> list[Row]:
        """Counts by key, the most expensive first, or by key and time."""
        names = COUNT_COLUMNS.split()

        def read(connection: Connection) -> list[Row]:
            if group in ("session", "task"):
                source = _of_sessions(window, names)
            else:
                own = analytics_session_counts
                source = _visible(analytics_counts, own, window, ["model", "persona"], names)
            statement, key = _by_key(source, group)
            return _grouped(connection, statement, source, key, names, by_time, keys, "cost_nano_usd")

        return await self._rows.fetch(read)

    async def latencies(self, window: Window, *, by_time: bool = False) -> list[Row]:
        """Histograms by kind and name, as `kind/name`."""
        names = HISTOGRAM_COLUMNS.split()

        def read(connection: Connection) -> list[Row]:
            own = analytics_session_latencies
            source = _visible(analytics_latencies, own, window, ["kind", "name"], names)
            # Two parameters would be two keys to PostgreSQL.
            slash: ColumnElement[str] = literal_column("'/'")
            key = source.c.kind + slash + source.c.name
            return _grouped(connection, select(), source, key, names, by_time, (), "count")

        return await self._rows.fetch(read)

    async def outcomes(self, window: Window, group: AnalyticsGroup, *, by_time: bool = False) -> list[Row]:
        """Sessions that were opened in the window, and the state of their changes now."""

        def read(connection: Connection) -> list[Row]:
            source = _outcomes(window)
            statement, key = _by_key(source, group)
            names = [
                "sessions",
                "prompted",
                "with_change",
                "changes",
                "merged",
                "closed",
                "merged_sessions",
                "change_ms",
                *_COSTS,
                "merged_cost_nano_usd",
            ]
            return _grouped(connection, statement, source, key, names, by_time, (), "sessions")

        return await self._rows.fetch(read)

    async def funnel(self, window: Window) -> dict[str, int]:
        """Tasks that were created in the window: how many have a session, a change, a merged change."""
        return await self._rows.fetch(lambda connection: _funnel(connection, window))

    async def names(self) -> dict[str, str]:
        """The names of all users by id."""
        found = select(users.c.id, users.c.name)
        return await self._rows.fetch(
            lambda connection: {row.id: row.name for row in connection.execute(found)}
        )

    async def task_names(self, ids: Sequence[str]) -> dict[str, str]:
        """Keys and titles of tasks by id."""
        found = select(tasks.c.id, tasks.c.key, tasks.c.title).where(tasks.c.id.in_(ids[:MAX_ROWS]))
        return await self._rows.fetch(
            lambda connection: {row.id: f"{row.key} {row.title}" for row in connection.execute(found)}
        )

    async def prune(self, now_ms: int) -> None:
        """Delete rows that are older than the retention of their step."""
        await self._rows.change(lambda connection: prune_analytics(connection, now_ms))

    async def first_event_ms(self) -> int | None:
        """When the oldest log was opened; None without logs."""
        oldest = select(func.min(logs.c.opened_ms))
        return await self._rows.fetch(lambda connection: connection.execute(oldest).scalar_one())

    async def costs_of_runs(self, since_ms: int) -> list[RunCost]:
        """Runs with a cost limit that have cost something since then."""
        runs = analytics_runs
        statement = select(runs.c.session_id, runs.c.run_id, runs.c.cost_nano_usd, runs.c.limit_nano_usd)
        statement = statement.where(runs.c.spent_ms >= since_ms, runs.c.limit_nano_usd > 0)
        return await self._rows.fetch(
            lambda connection: [RunCost(*row) for row in connection.execute(statement)]
        )

    async def count_unprocessed(self) -> int:
        """The number of newest events that are not in the analytics yet."""
        return await self._rows.fetch(
            lambda connection: max(0, read_newest(connection) - read_position(connection, NAME))
        )


_COSTS = ("cost_nano_usd", "runs", "runs_done", "runs_tests_failing", "interventions", "duration_ms")


def _filters(table: Any, window: Window) -> list[ColumnElement[bool]]:
    names = {"repository": "repository", "user": "user_id", "model": "model", "persona": "persona"}
    wanted = ((column, getattr(window, name)) for name, column in names.items())
    found: list[ColumnElement[bool]] = [
        table.c[column] == value for column, value in wanted if value and column in table.c
    ]
    if "at_ms" in table.c:
        found += [table.c.step_ms == window.step_ms, table.c.at_ms.between(window.from_ms, window.to_ms - 1)]
    return found


def _visible(
    sums: Table, own: Table, window: Window, dimensions: Sequence[str], names: Sequence[str]
) -> Subquery:
    """The rows of the window: for a viewer, those of their own sessions and of those shared with them."""
    columns = ["at_ms", "user_id", "repository", *dimensions, *names]

    def rows_of(table: Table) -> Select[Any]:
        return select(*(table.c[name] for name in columns)).where(*_filters(table, window))

    if window.viewer is None:
        return rows_of(sums).subquery()
    mine = rows_of(sums).where(sums.c.user_id == window.viewer)
    is_shared = own.c.session_id.in_(shared_with(window.viewer)) & (own.c.user_id != window.viewer)
    return union_all(mine, rows_of(own).where(is_shared)).subquery()


def _of_sessions(window: Window, names: Sequence[str]) -> Subquery:
    table = analytics_session_counts
    columns = ["session_id", "at_ms", "user_id", "repository", "model", "persona", *names]
    statement = select(*(table.c[name] for name in columns)).where(*_filters(table, window))
    return _seen(statement, table, window).subquery()


def _seen(statement: Select[Any], table: Table, window: Window) -> Select[Any]:
    if window.viewer is None:
        return statement
    is_own = table.c.user_id == window.viewer
    return statement.where(is_own | table.c.session_id.in_(shared_with(window.viewer)))


def _by_key(source: Subquery, group: AnalyticsGroup) -> tuple[Select[Any], ColumnElement[Any]]:
    """An empty query of the source, with what the key needs, and the key."""
    match group:
        case "all":
            return select(), literal("")
        case "user":
            return select(), source.c.user_id
        case "session":
            return select(), source.c.session_id
        case "task":
            linked = _sessions_of_tasks()
            is_linked = linked.c.session_id == source.c.session_id
            return select().select_from(source.join(linked, is_linked)), linked.c.task_id
    return select(), source.c[group]


def _sessions_of_tasks() -> Subquery:
    """The sessions of each task, with their helpers."""
    is_session = task_links.c.kind == "session"
    ancestors = HELPER_ANCESTORS
    own = select(task_links.c.task_id, task_links.c.target.label("session_id")).where(is_session)
    below = select(task_links.c.task_id, ancestors.c.id).join(
        ancestors, ancestors.c.ancestor == task_links.c.target
    )
    return own.union(below.where(is_session)).subquery()


def _grouped(
    connection: Connection,
    statement: Select[Any],
    source: Subquery,
    key: ColumnElement[Any],
    names: Sequence[str],
    by_time: bool,
    keys: Sequence[str],
    order: str,
) -> list[Row]:
    sums = [func.coalesce(func.sum(source.c[name]), 0).label(f"sum_{name}") for name in names]
    at_ms = source.c.at_ms if by_time else literal(0)
    statement = statement.add_columns(key.label("key"), at_ms.label("at_ms"), *sums)
    statement = statement.group_by(key, at_ms) if by_time else statement.group_by(key)
    if keys:
        statement = statement.where(key.in_(keys))
    if not by_time:
        statement = statement.order_by(func.sum(source.c[order]).desc(), key).limit(MAX_ROWS)
    return [
        Row(str(row[0]), int(row[1]), dict(zip(names, row[2:], strict=True)))
        for row in connection.execute(statement)
    ]


def _outcomes(window: Window) -> Subquery:
    """One row for each session that was opened in the window, with the cost and the work of its helpers."""
    facts, own, of_helpers = analytics_sessions, _costs(), _costs_of_helpers()
    costs = {name: func.coalesce(own.c[name], 0) + func.coalesce(of_helpers.c[name], 0) for name in _COSTS}
    reworks = _prompts_after_reviews()
    first_ms = case((facts.c.prompted_ms > 0, facts.c.prompted_ms), else_=facts.c.opened_ms)
    by_people = costs["interventions"] - func.coalesce(reworks.c.prompts, 0)
    proposed = (
        select(
            changes.c.session_id,
            func.count().label("changes"),
            func.sum(case((changes.c.state == "merged", 1), else_=0)).label("merged"),
            func.sum(case((changes.c.state == "closed", 1), else_=0)).label("closed"),
        )
        .group_by(changes.c.session_id)
        .subquery()
    )
    is_merged = func.coalesce(proposed.c.merged, 0) > 0
    begin = facts.c.opened_ms - facts.c.opened_ms % window.step_ms
    statement = (
        select(
            facts.c.session_id,
            facts.c.user_id,
            facts.c.repository,
            begin.label("at_ms"),
            literal("").label("model"),
            literal("").label("persona"),
            literal(1).label("sessions"),
            case((facts.c.prompted_ms > 0, 1), else_=0).label("prompted"),
            case((facts.c.proposed_ms > 0, 1), else_=0).label("with_change"),
            proposed.c.changes,
            proposed.c.merged,
            proposed.c.closed,
            case((is_merged, 1), else_=0).label("merged_sessions"),
            case((by_people > 0, by_people), else_=0).label("interventions"),
            case((facts.c.proposed_ms > 0, facts.c.proposed_ms - first_ms), else_=0).label("change_ms"),
            *(cost.label(name) for name, cost in costs.items() if name != "interventions"),
            case((is_merged, costs["cost_nano_usd"]), else_=0).label("merged_cost_nano_usd"),
        )
        .select_from(
            facts.outerjoin(own, own.c.session_id == facts.c.session_id)
            .outerjoin(of_helpers, of_helpers.c.session_id == facts.c.session_id)
            .outerjoin(proposed, proposed.c.session_id == facts.c.session_id)
            .outerjoin(reworks, reworks.c.session_id == facts.c.session_id)
        )
        .where(facts.c.session_id.not_in(helper_roots().with_only_columns(HELPER_ANCESTORS.c.id)))
        .where(facts.c.opened_ms.between(window.from_ms, window.to_ms - 1), *_filters(facts, window))
    )
    return _seen(statement, facts, window).subquery()


def _costs() -> Subquery:
    """The costs and the work of each session, without its helpers."""
    counts = analytics_session_counts
    sums = (func.sum(counts.c[name]).label(name) for name in _COSTS)
    of_days = select(counts.c.session_id, *sums).where(counts.c.step_ms == DAY_MS)
    return of_days.group_by(counts.c.session_id).subquery()


def _costs_of_helpers() -> Subquery:
    """Those of the helpers of each session. They are summed apart, because most sessions have none."""
    counts, roots = analytics_session_counts, helper_roots().subquery()
    sums = (func.sum(counts.c[name]).label(name) for name in _COSTS)
    of_helpers = select(roots.c.root.label("session_id"), *sums)
    of_helpers = of_helpers.join(counts, (counts.c.session_id == roots.c.id) & (counts.c.step_ms == DAY_MS))
    return of_helpers.group_by(roots.c.root).subquery()


def _prompts_after_reviews() -> Subquery:
    """The prompts that the queue of tasks gave an agent after a review. No person has intervened there."""
    work = task_assignments
    prompts = func.sum(work.c.reworks).label("prompts")
    counted = select(work.c.session_id, prompts).where(work.c.reworks > 0)
    return counted.group_by(work.c.session_id).subquery()


def _funnel(connection: Connection, window: Window) -> dict[str, int]:
    facts = analytics_sessions
    linked = (
        select(
            task_links.c.task_id,
            func.max(case((facts.c.proposed_ms > 0, 1), else_=0)).label("proposed"),
            func.max(case((changes.c.state == "merged", 1), else_=0)).label("merged"),
        )
        .select_from(
            task_links.join(facts, facts.c.session_id == task_links.c.target).outerjoin(
                changes, changes.c.session_id == facts.c.session_id
            )
        )
        .where(task_links.c.kind == "session", *_filters(facts, replace(window, repository="")))
        .group_by(task_links.c.task_id)
    )
    seen = _seen(linked, facts, window).subquery()
    is_created = tasks.c.created_ms.between(window.from_ms, window.to_ms - 1)
    places = [tasks.c.repository == window.repository] if window.repository else []
    people = [
        (tasks.c.created_by == user_id)
        | tasks.c.owner.in_(select(users.c.name).where(users.c.id == user_id))
        | seen.c.task_id.is_not(None)
        for user_id in (window.viewer, window.user)
        if user_id
    ]
    counted = select(
        func.count(),
        func.count(seen.c.task_id),
        func.coalesce(func.sum(seen.c.proposed), 0),
        func.coalesce(func.sum(seen.c.merged), 0),
    ).select_from(tasks.outerjoin(seen, seen.c.task_id == tasks.c.id))
    counted = counted.where(is_created, *places, *people)
    names = ("tasks", "tasks_with_session", "tasks_with_change", "tasks_merged")
    return dict(zip(names, map(int, connection.execute(counted).one()), strict=True))
