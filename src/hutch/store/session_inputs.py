"""The numbered inputs of sessions. An acknowledged input is never lost."""

from dataclasses import asdict, fields

from sqlalchemy import Connection, func, insert, select, update

from hutch.domain.errors import Conflict, LimitReached
from hutch.domain.ids import SessionId
from hutch.domain.session import QueuedRun, SessionInput
from hutch.store.message_and_run_rate_limits import NO_RATES, SessionRates, check_message, check_run
from hutch.store.run_queue import add_run
from hutch.store.schema import inputs
from hutch.store.sessions import find_session
from hutch.store.table_access_interface import ExtraWrite, Rows
from hutch.system.clock_without_jumps import wall_ms


def session_has_ended(session_id: str) -> Conflict:
    return Conflict(f"The session {session_id} has ended. Fork it to continue from its last state.")


def add_input(
    connection: Connection, session_id: SessionId, by: str, body: str, audience: str | None = None
) -> SessionInput:
    """The next input of a session."""
    last = connection.scalar(select(func.max(inputs.c.seq)).where(inputs.c.session_id == session_id))
    new_input = SessionInput(
        session_id=session_id, seq=(last or 0) + 1, at_ms=wall_ms(), by=by, body=body, audience=audience
    )
    connection.execute(insert(inputs).values(**asdict(new_input)))
    return new_input


def count_unprocessed(connection: Connection, session_id: SessionId) -> int:
    here = (inputs.c.session_id == session_id, inputs.c.processed.is_(False))
    return connection.scalar(select(func.count()).select_from(inputs).where(*here)) or 0


class Inputs:
    """The inputs of sessions, in order."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def add(
        self,
        session_id: SessionId,
        by: str,
        body: str,
        *,
        max_unprocessed: int,
        audience: str | None = None,
        also: ExtraWrite[SessionInput] | None = None,
        rates: SessionRates = NO_RATES,
    ) -> SessionInput:
        """Add an input; refused if the session has ended, too many inputs wait, or they come too fast."""

        def add(connection: Connection) -> SessionInput:
            session = find_session(connection, session_id)
            if session is None or session.state == "ended":
                raise session_has_ended(session_id)
            if count_unprocessed(connection, session_id) >= max_unprocessed:
                raise LimitReached(
                    f"{max_unprocessed} inputs already wait in session {session_id}. "
                    "Wait, or cancel its run.",
                    limit="inputs",
                )
            check_message(connection, rates, session_id, body)
            new_input = add_input(connection, session_id, by, body, audience)
            if also:
                also.write(connection, new_input)
            return new_input

        return await self._rows.change(add)

    async def page(
        self, session_id: SessionId, *, after: int = 0, unprocessed: bool = False, limit: int = 1000
    ) -> list[SessionInput]:
        statement = (
            select(*(inputs.c[each.name] for each in fields(SessionInput)))
            .where(inputs.c.session_id == session_id, inputs.c.seq > after)
            .order_by(inputs.c.seq)
            .limit(limit)
        )
        if unprocessed:
            statement = statement.where(inputs.c.processed.is_(False))
        found = await self._rows.fetch(lambda connection: connection.execute(statement).mappings().all())
        return [SessionInput(**row) for row in found]

    async def mark_processed(self, session_id: SessionId, seq: int) -> None:
        """Mark an input whose result is in the log."""
        statement = update(inputs).where(inputs.c.session_id == session_id, inputs.c.seq == seq)
        await self._rows.change(lambda connection: connection.execute(statement.values(processed=True)))

    async def queue_run(self, run: QueuedRun, rates: SessionRates = NO_RATES) -> None:
        """Queue the run that an input requests and mark the input, in one transaction."""

        def take(connection: Connection) -> None:
            check_run(connection, rates, run.session_id)
            add_run(connection, run)
            here = (inputs.c.session_id == run.session_id, inputs.c.seq == run.input)
            connection.execute(update(inputs).where(*here).values(processed=True))

        await self._rows.change(take)

    async def mark_all_processed(self, session_id: SessionId) -> None:
        """Mark all waiting inputs, because the session cannot process them any more."""
        here = (inputs.c.session_id == session_id, inputs.c.processed.is_(False))
        statement = update(inputs).where(*here).values(processed=True)
        await self._rows.change(lambda connection: connection.execute(statement))

    async def sessions_with_unprocessed(self) -> list[SessionId]:
        """Sessions with unprocessed inputs."""
        statement = select(inputs.c.session_id).where(inputs.c.processed.is_(False)).distinct()
        found = await self._rows.fetch(lambda connection: list(connection.scalars(statement)))
        return [SessionId(id) for id in found]
