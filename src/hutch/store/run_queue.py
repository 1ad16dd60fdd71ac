"""The queue of runs: waiting, running under a lease, and ended.

A run is claimed by one worker at a time, which renews its lease while it works. If the
worker dies, the lease expires and another worker claims the run.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, insert, select, update

from hutch.domain.errors import NotFound
from hutch.domain.generation_options import Generation
from hutch.domain.ids import SessionId
from hutch.domain.one_line_text import echo
from hutch.domain.session import DeliveryResult, QueuedRun, RunState
from hutch.store.runs_reserved_for_process import PREFIX, is_gone, is_reserved
from hutch.store.schema import runs, sessions
from hutch.store.table_access_interface import Rows
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

NOT_STARTABLE = ("paused", "ended")  # states of a session
IDLE_STATES = ("idle", "parked")
ABANDONED = "The process that worked on it has ended. Resume it to continue."


@dataclass(frozen=True, slots=True)
class RunCapacity:
    """The maximum number of concurrent runs.

    A run that waits for an approval or an answer does not count, up to a number of its own: it keeps the
    memory of its jail. Waiting runs beyond that number count like running ones.
    """

    total: int
    per_user: int
    waiting: int = 0
    waiting_per_user: int = 0


def add_run(connection: Connection, run: QueuedRun) -> None:
    connection.execute(insert(runs).values(_values(run)))


def read_run(row: Mapping[Any, Any]) -> QueuedRun:
    """Convert a row to a run."""
    delivered = row["delivered"]
    return QueuedRun(
        **{
            **row,
            "generation": Generation(**json.loads(row["generation"])),
            "delivered": DeliveryResult(**json.loads(delivered)) if delivered else None,
        }
    )


class Runs:
    """Runs in the order of their requests."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def claim(self, worker: str, *, lease_ms: int, capacity: RunCapacity) -> QueuedRun | None:
        """Claim the oldest run that may start now; None if there is none.

        A worker with reservations claims only its own runs, and other workers never claim those.
        """
        return await self._rows.change(lambda connection: _claim(connection, worker, lease_ms, capacity))

    async def renew(self, worker: str, run_ids: Collection[str], *, lease_ms: int) -> list[str]:
        """Renew the leases of runs; returns the ids that are still held."""
        mine = (runs.c.id.in_(run_ids), runs.c.worker == worker, runs.c.state == "running")

        def renew(connection: Connection) -> list[str]:
            connection.execute(update(runs).where(*mine).values(lease_until_ms=wall_ms() + lease_ms))
            return list(connection.scalars(select(runs.c.id).where(*mine)))

        return await self._rows.change(renew)

    async def end(self, run_id: str, outcome: str, reason: str = "") -> None:
        """Mark a run as ended; only the first call has an effect."""
        values = {"state": "ended", "outcome": outcome, "reason": reason, "ended_ms": wall_ms()}
        await self._move(run_id, ("queued", "running", "held"), **values, worker="")

    async def end_all(self, session_id: str, outcome: str, reason: str = "") -> None:
        """End all unfinished runs of a session."""
        here = (runs.c.session_id == session_id, runs.c.state != "ended")
        values = {"state": "ended", "outcome": outcome, "reason": reason, "ended_ms": wall_ms(), "worker": ""}
        statement = update(runs).where(*here).values(values)
        await self._rows.change(lambda connection: connection.execute(statement))

    async def hold(self, run_id: str) -> None:
        """Mark a run as stopped by a pause."""
        await self._move(run_id, ("running", "queued"), state="held", worker="")

    async def hold_queued(self, run_id: str) -> bool:
        """Keep workers from claiming a run; False if it is running already or has ended."""
        here = update(runs).where(runs.c.id == run_id, runs.c.state.in_(("queued", "held")))
        return await self._rows.change(
            lambda connection: connection.execute(here.values(state="held")).rowcount > 0
        )

    async def hold_all(self, session_id: str) -> None:
        """Keep workers from claiming the waiting runs of a session."""
        statement = update(runs).where(runs.c.session_id == session_id, runs.c.state == "queued")
        await self._rows.change(lambda connection: connection.execute(statement.values(state="held")))

    async def release(self, run_id: str, worker: str) -> None:
        """Return a run that its worker cannot finish now to the queue."""
        mine = (runs.c.id == run_id, runs.c.worker == worker, runs.c.state == "running")
        statement = update(runs).where(*mine).values(state="queued", worker="", lease_until_ms=0)
        await self._rows.change(lambda connection: connection.execute(statement))

    async def requeue_unpaused(self) -> None:
        """After a crash, requeue held runs unless their session is paused."""
        paused = select(sessions.c.id).where(sessions.c.state == "paused")
        statement = update(runs).where(runs.c.state == "held", runs.c.session_id.not_in(paused))
        await self._rows.change(lambda connection: connection.execute(statement.values(state="queued")))

    async def requeue(self, session_id: str, *, worker: str = "") -> None:
        """Requeue runs that a pause stopped, in their old position; reserved for `worker`, if given."""
        statement = update(runs).where(runs.c.session_id == session_id, runs.c.state == "held")
        values = {"state": "queued", "worker": worker}
        await self._rows.change(lambda connection: connection.execute(statement.values(values)))

    async def requeue_ended(self, run_id: str, *, worker: str = "") -> None:
        """Requeue an ended run, and its session with it; reserved for `worker`, if given."""
        statement = update(runs).where(runs.c.id == run_id, runs.c.state == "ended")
        of = select(runs.c.session_id).where(runs.c.id == run_id).scalar_subquery()
        resting = update(sessions).where(sessions.c.id == of, sessions.c.state.in_(IDLE_STATES))

        def again(connection: Connection) -> None:
            values = {"state": "queued", "worker": worker, "lease_until_ms": 0, "ended_ms": 0}
            if connection.execute(statement.values(values)).rowcount:
                connection.execute(resting.values(state="queued", updated_ms=wall_ms()))

        await self._rows.change(again)

    async def record_delivery(self, run_id: str, delivered: DeliveryResult) -> None:
        """Store the result of delivering a run."""
        statement = update(runs).where(runs.c.id == run_id).values(delivered=_text(delivered))
        await self._rows.change(lambda connection: connection.execute(statement))

    async def last_delivered(self, session_ids: Collection[str]) -> dict[str, QueuedRun]:
        """For each session, the newest run with a delivery result."""
        tried = (runs.c.session_id.in_(session_ids), runs.c.delivered != "")
        newest = select(func.max(runs.c.id)).where(*tried).group_by(runs.c.session_id)
        statement = select(runs).where(runs.c.id.in_(newest))
        found = await self._rows.fetch(lambda connection: connection.execute(statement).mappings().all())
        return {row["session_id"]: read_run(row) for row in found}

    async def last_ended(self, session_ids: Collection[str]) -> dict[str, QueuedRun]:
        """For each session, the newest run that has ended."""
        ended = (runs.c.session_id.in_(session_ids), runs.c.state == "ended", runs.c.kind == "prompt")
        newest = select(func.max(runs.c.id)).where(*ended).group_by(runs.c.session_id)
        statement = select(runs).where(runs.c.id.in_(newest))
        found = await self._rows.fetch(lambda connection: connection.execute(statement).mappings().all())
        return {row["session_id"]: read_run(row) for row in found}

    async def leases(self, *, excluding: str) -> dict[str, int]:
        """The leases of the runs of other workers."""
        statement = select(runs.c.id, runs.c.lease_until_ms).where(
            runs.c.state == "running", runs.c.worker != excluding
        )
        found = await self._rows.fetch(lambda connection: connection.execute(statement).all())
        return {row[0]: row[1] for row in found}

    async def pause_abandoned(self) -> list[str]:
        """Pause the sessions whose runs are reserved for an ended process; returns their ids."""
        reserved = (runs.c.state != "ended", runs.c.worker.startswith(PREFIX, autoescape=True))
        statement = select(runs.c.session_id, runs.c.worker).where(*reserved).distinct()
        found = await self._rows.fetch(lambda connection: connection.execute(statement).all())
        gone = {row.worker: row.session_id for row in found if is_gone(row.worker)}
        here = (runs.c.state != "ended", runs.c.worker.in_(gone))

        def pause(connection: Connection) -> None:
            connection.execute(update(runs).where(*here).values(state="held", worker=""))
            left = (sessions.c.id.in_(gone.values()), sessions.c.state != "ended")
            values = {"state": "paused", "reason": ABANDONED, "updated_ms": wall_ms()}
            connection.execute(update(sessions).where(*left).values(values))

        if gone:
            await self._rows.change(pause)
        return sorted(set(gone.values()))

    async def abandoned_in_place(self) -> list[SessionId]:
        """The sessions that worked in a directory in place, in a process that has ended."""
        reserved = (runs.c.state != "ended", runs.c.worker.startswith(PREFIX, autoescape=True))
        joined = select(runs.c.session_id, runs.c.worker, sessions.c.delivery).join(
            sessions, sessions.c.id == runs.c.session_id
        )
        found = await self._rows.fetch(lambda connection: connection.execute(joined.where(*reserved)).all())
        return [
            SessionId(row.session_id)
            for row in found
            if is_gone(row.worker) and json.loads(row.delivery).get("in_place")
        ]

    async def take_over(self, run_id: str) -> None:
        """Pause a run whose server has ended, so that it can be resumed elsewhere."""
        mine = (runs.c.id == run_id, runs.c.state == "running", runs.c.worker.not_like(f"{PREFIX}%"))
        of = select(runs.c.session_id).where(runs.c.id == run_id).scalar_subquery()

        def pause(connection: Connection) -> None:
            if connection.execute(update(runs).where(*mine).values(state="held", worker="")).rowcount:
                values = {"state": "paused", "reason": ABANDONED, "updated_ms": wall_ms()}
                connection.execute(update(sessions).where(sessions.c.id == of).values(values))

        await self._rows.change(pause)

    async def reserved_sessions(self) -> list[str]:
        """The sessions with reserved runs."""
        here = (runs.c.state != "ended", runs.c.worker.startswith(PREFIX, autoescape=True))
        statement = select(runs.c.session_id).where(*here).distinct()
        return await self._rows.fetch(lambda connection: list(connection.scalars(statement)))

    async def reclaim(self, lost: Collection[tuple[str, int]]) -> list[QueuedRun]:
        """Requeue runs whose worker has ended, unless their lease was renewed since it was read."""

        def reclaim(connection: Connection) -> list[QueuedRun]:
            found: list[QueuedRun] = []
            for run_id, lease_until_ms in lost:
                here = (runs.c.id == run_id, runs.c.lease_until_ms == lease_until_ms)
                found += _reclaim(connection, *here)
            return found

        return await self._rows.change(reclaim)

    async def reclaim_all(self) -> list[QueuedRun]:
        """Requeue all running runs, because no worker has survived.

        Reserved runs are not affected.
        """

        def reclaim(connection: Connection) -> list[QueuedRun]:
            found = _reclaim(connection)
            # A worker that held further runs for a moment was killed.
            paused = select(sessions.c.id).where(sessions.c.state.in_(NOT_STARTABLE))
            held = update(runs).where(runs.c.state == "held", runs.c.session_id.not_in(paused))
            connection.execute(held.values(state="queued"))
            return found

        return await self._rows.change(reclaim)

    async def get(self, run_id: str) -> QueuedRun:
        statement = select(runs).where(runs.c.id == run_id)
        row = await self._rows.fetch(lambda connection: connection.execute(statement).mappings().first())
        if row is None:
            raise NotFound(f"There is no run {echo(run_id, 80)}.")
        return read_run(row)

    async def page(
        self,
        *,
        session_ids: Sequence[str] | None = None,
        states: Collection[RunState] = (),
        preparing: bool = False,
        before: str = "",
        limit: int = 50,
    ) -> list[QueuedRun]:
        """The newest first; with `preparing`, preparation runs are included."""
        statement = select(runs).order_by(runs.c.id.desc()).limit(limit)
        if not preparing:
            statement = statement.where(runs.c.kind == "prompt")
        if session_ids is not None:
            statement = statement.where(runs.c.session_id.in_(session_ids))
        if states:
            statement = statement.where(runs.c.state.in_(states))
        if before:
            statement = statement.where(runs.c.id < before)
        found = await self._rows.fetch(lambda connection: connection.execute(statement).mappings().all())
        return [read_run(row) for row in found]

    async def of_inputs(self, session_id: str, inputs: Collection[int]) -> dict[int, str]:
        """The runs that the inputs of a session have started, by input number."""
        statement = select(runs.c.input, runs.c.id).where(
            runs.c.session_id == session_id, runs.c.kind == "prompt", runs.c.input.in_(inputs)
        )
        found = await self._rows.fetch(lambda connection: connection.execute(statement).all())
        return {row[0]: row[1] for row in found}

    async def queue_positions(self, run_ids: Collection[str]) -> dict[str, int]:
        """The positions of waiting runs in the queue: 1 is next."""
        statement = select(runs.c.id).where(runs.c.state == "queued").order_by(runs.c.id)
        queue = await self._rows.fetch(lambda connection: list(connection.scalars(statement)))
        requested = frozenset(run_ids)
        return {id: position for position, id in enumerate(queue, start=1) if id in requested}

    async def places(self, session_ids: Sequence[str]) -> dict[str, int]:
        """The positions of waiting sessions in the queue, each by its first run."""
        if not session_ids:
            return {}
        queued = await self.page(session_ids=session_ids, states=["queued"], preparing=True, limit=1000)
        by_run = await self.queue_positions([each.id for each in queued])
        return {each.session_id: by_run[each.id] for each in reversed(queued) if each.id in by_run}

    async def unfinished(self, session_id: str) -> list[QueuedRun]:
        """The unfinished runs of a session, oldest first."""
        statement = select(runs).where(runs.c.session_id == session_id, runs.c.state != "ended")
        found = await self._rows.fetch(
            lambda connection: connection.execute(statement.order_by(runs.c.id)).mappings().all()
        )
        return [read_run(row) for row in found]

    async def counts(self) -> dict[str, int]:
        """The number of runs in each state."""
        statement = select(runs.c.state, func.count()).group_by(runs.c.state)
        found = await self._rows.fetch(lambda connection: connection.execute(statement).all())
        return {row[0]: row[1] for row in found}

    async def _move(self, run_id: str, states: Collection[RunState], **values: Any) -> None:
        statement = update(runs).where(runs.c.id == run_id, runs.c.state.in_(states)).values(**values)
        await self._rows.change(lambda connection: connection.execute(statement))


def _reclaim(connection: Connection, *which: ColumnElement[bool]) -> list[QueuedRun]:
    lost = (runs.c.state == "running", runs.c.worker.not_like(f"{PREFIX}%"), *which)
    found = [read_run(row) for row in connection.execute(select(runs).where(*lost)).mappings()]
    connection.execute(update(runs).where(*lost).values(state="queued", worker=""))
    return found


def _values(run: QueuedRun) -> dict[str, Any]:
    generation = json.dumps(asdict(run.generation))
    return {**asdict(run), "generation": generation, "delivered": _text(run.delivered)}


def _text(delivered: DeliveryResult | None) -> str:
    return json.dumps(asdict(delivered)) if delivered else ""


def _claim(connection: Connection, worker: str, lease_ms: int, capacity: RunCapacity) -> QueuedRun | None:
    claimed = (
        select(runs.c.session_id, runs.c.owner, sessions.c.state, sessions.c.parent)
        .join(sessions, sessions.c.id == runs.c.session_id)
        .where(runs.c.state == "running")
    )
    if is_reserved(worker):  # runs of other workers do not count towards its capacity
        claimed = claimed.where(runs.c.worker == worker)
    busy = connection.execute(claimed).all()
    busy_sessions = {row.session_id for row in busy}
    # The run of a helper uses the place of its parent's run, which waits for it.
    counted = [row for row in busy if row.parent not in busy_sessions]
    waits = Counter(row.owner for row in counted if row.state == "waiting")
    of_user = Counter(row.owner for row in counted if row.state != "waiting")
    is_full = of_user.total() + max(0, waits.total() - capacity.waiting) >= capacity.total
    for owner, number in waits.items():
        of_user[owner] += max(0, number - capacity.waiting_per_user)
    has_place = sessions.c.parent.in_(busy_sessions)
    waiting = (
        select(runs, has_place.label("has_place"))
        .join(sessions, sessions.c.id == runs.c.session_id)
        .where(
            runs.c.state == "queued",
            runs.c.worker == (worker if is_reserved(worker) else ""),
            sessions.c.state.not_in(NOT_STARTABLE),
        )
        .order_by(runs.c.id)
    )
    if is_full:
        waiting = waiting.where(has_place)
    for row in connection.execute(waiting).mappings():
        run = read_run({name: value for name, value in row.items() if name != "has_place"})
        is_over = not row["has_place"] and of_user[run.owner] >= capacity.per_user
        if run.session_id in busy_sessions or is_over:
            busy_sessions.add(run.session_id)  # later runs of a session must not overtake
            continue
        now = wall_ms()
        taken = replace(
            run,
            state="running",
            worker=worker,
            lease_until_ms=now + lease_ms,
            started_ms=run.started_ms or now,
        )
        connection.execute(update(runs).where(runs.c.id == run.id).values(_values(taken)))
        return taken
    return None
