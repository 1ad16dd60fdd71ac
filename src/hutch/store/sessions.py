"""The sessions of a server, as rows."""

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    bindparam,
    func,
    insert,
    or_,
    select,
    update,
)

from hutch.domain.errors import NotFound
from hutch.domain.generation_options import Generation
from hutch.domain.ids import SessionId
from hutch.domain.one_line_text import echo
from hutch.domain.run_limits import RunLimits
from hutch.domain.session import Delivery, HelperRights, Session, SessionState, Tries
from hutch.domain.session_jail_resource_limits import Resources
from hutch.store.interview_tables import interview_workspaces
from hutch.store.interview_tables import interviews as interview_rows
from hutch.store.schema import runs, sessions
from hutch.store.shares import shared_with
from hutch.store.table_access_interface import Rows
from hutch.system.clock_without_jumps import wall_ms

ENDED_STATES = ("ended",)
_OF_INTERVIEWS = select(interview_rows.c.id).union_all(select(interview_workspaces.c.session_id))
_FIND = select(sessions).where(sessions.c.id == bindparam("session"))  # built once: it runs in each request
JSON_COLUMNS = ("network", "variables", "secrets", "limits", "resources", "generation", "delivery", "helper")


def add_session(connection: Connection, session: Session) -> None:
    connection.execute(insert(sessions).values(_values(session)))


def change_session(connection: Connection, before: Session, after: Session) -> bool:
    """Store other options of a session; False if they are no longer as `before`, or it has ended."""
    columns = ("persona", "model", *JSON_COLUMNS)
    old, new = _values(before), _values(after)
    unchanged = (sessions.c[name] == old[name] for name in columns)
    here = (sessions.c.id == before.id, sessions.c.state.not_in(ENDED_STATES), *unchanged)
    changed = {name: new[name] for name in columns}
    statement = update(sessions).where(*here).values(**changed, updated_ms=wall_ms())
    return connection.execute(statement).rowcount > 0


def _values(session: Session) -> dict[str, Any]:
    values = asdict(session)
    return {**values, **{name: json.dumps(values[name]) for name in JSON_COLUMNS}}


def find_session(connection: Connection, session_id: str) -> Session | None:
    row = connection.execute(_FIND, {"session": session_id}).mappings().first()
    return None if row is None else read_session(row)


class Sessions:
    """Sessions and their states."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def get(self, session_id: str) -> Session:
        found = await self._rows.fetch(lambda connection: find_session(connection, session_id))
        if found is None:
            raise NotFound(f"There is no session {echo(session_id, 80)}.")
        return found

    async def page(
        self,
        *,
        user_id: str | None,
        states: Collection[SessionState] = (),
        text: str = "",
        before: str = "",
        limit: int = 50,
        interviews: bool = True,
        helpers: bool = True,
        parent: str = "",
    ) -> list[Session]:
        """Sessions that a user owns or shares, newest first; with None, all. Without `interviews` or
        `helpers`, those are left out. With `parent`, only the helpers of that session."""
        statement = select(sessions).order_by(sessions.c.id.desc()).limit(limit)
        if user_id is not None:
            shared = shared_with(user_id)
            statement = statement.where(or_(sessions.c.owner == user_id, sessions.c.id.in_(shared)))
        if states:
            statement = statement.where(sessions.c.state.in_(states))
        if before:
            statement = statement.where(sessions.c.id < before)
        if not interviews:
            statement = statement.where(sessions.c.id.not_in(_OF_INTERVIEWS))
        if parent:
            statement = statement.where(sessions.c.parent == parent)
        elif not helpers:
            statement = statement.where(sessions.c.parent == "")
        for word in text.split():
            statement = _with_word(statement, word)
        found = await self._rows.fetch(lambda connection: connection.execute(statement).mappings().all())
        return [read_session(row) for row in found]

    async def get_many(self, ids: Sequence[str]) -> dict[str, Session]:
        """Several sessions by id; unknown ids are omitted."""
        statement = select(sessions).where(sessions.c.id.in_(ids))
        found = await self._rows.fetch(lambda connection: connection.execute(statement).mappings().all())
        return {row["id"]: read_session(row) for row in found}

    async def counts(self) -> dict[str, int]:
        """The number of sessions in each state."""
        statement = select(sessions.c.state, func.count()).group_by(sessions.c.state)
        found = await self._rows.fetch(lambda connection: connection.execute(statement).all())
        return {row[0]: row[1] for row in found}

    async def set(self, session_id: SessionId, **values: Any) -> None:
        """Update columns of a session, unless it has ended."""
        statement = update(sessions).where(sessions.c.id == session_id, sessions.c.state.not_in(ENDED_STATES))
        await self._rows.change(
            lambda connection: connection.execute(statement.values(**values, updated_ms=wall_ms()))
        )

    async def set_unless_paused(self, session_id: SessionId, state: SessionState) -> None:
        """Update the state of a session, unless it is paused or has ended."""
        excluded = (*ENDED_STATES, "paused")
        statement = update(sessions).where(sessions.c.id == session_id, sessions.c.state.not_in(excluded))
        values = {"state": state, "reason": "", "updated_ms": wall_ms()}
        await self._rows.change(lambda connection: connection.execute(statement.values(values)))

    async def set_run_options(
        self, session_id: SessionId, *, limits: RunLimits, model: str, generation: Generation, deliver: bool
    ) -> None:
        """Change the limits, model, generation options and delivery of future runs."""
        plain = {"limits": json.dumps(asdict(limits)), "generation": json.dumps(asdict(generation))}
        await self.set(session_id, **plain, model=model, deliver=deliver)

    async def in_states(self, states: Collection[SessionState]) -> list[SessionId]:
        statement = select(sessions.c.id).where(sessions.c.state.in_(states)).order_by(sessions.c.id)
        return [SessionId(id) for id in await self._rows.fetch(lambda rows: list(rows.scalars(statement)))]

    async def correct_states(
        self,
        states: Collection[SessionState],
        to: SessionState,
        *,
        without_runs: bool = False,
        excluding: Collection[str] = (),
    ) -> list[SessionId]:
        """After a crash, move sessions with an impossible state to `to`; with `without_runs`, only those
        without unfinished runs."""
        here: ColumnElement[bool] = sessions.c.state.in_(states) & sessions.c.id.not_in(excluding)
        if without_runs:
            here &= sessions.c.id.not_in(select(runs.c.session_id).where(runs.c.state != "ended"))

        def move(connection: Connection) -> list[SessionId]:
            ids = [SessionId(id) for id in connection.scalars(select(sessions.c.id).where(here))]
            connection.execute(update(sessions).where(here).values(state=to, updated_ms=wall_ms()))
            return ids

        return await self._rows.change(move)


def _with_word(statement: Select[Any], word: str) -> Select[Any]:
    with_prompt = select(runs.c.session_id).where(runs.c.prompt.icontains(word, autoescape=True))
    return statement.where(
        or_(
            sessions.c.purpose.icontains(word, autoescape=True),
            sessions.c.repository.icontains(word, autoescape=True),
            sessions.c.id.startswith(word, autoescape=True),
            sessions.c.id.in_(with_prompt),
        )
    )


def read_session(row: RowMapping) -> Session:
    values = dict(row)
    return Session(
        **{
            **values,
            "network": tuple(json.loads(values["network"])),
            "variables": tuple((name, value) for name, value in json.loads(values["variables"])),
            "secrets": tuple(json.loads(values["secrets"])),
            "limits": RunLimits(**json.loads(values["limits"])),
            "resources": Resources(**json.loads(values["resources"])),
            "generation": Generation(**json.loads(values["generation"])),
            "delivery": _delivery(json.loads(values["delivery"])),
            "helper": _helper(json.loads(values["helper"])),
        }
    )


def _delivery(values: dict[str, Any]) -> Delivery:
    lists = {name: tuple(values.get(name, ())) for name in ("labels", "reviewers")}
    tries = values.get("tries") or {}
    texts = {name: tuple(tries.get(name, ())) for name in ("models", "personas", "temperatures", "checks")}
    return Delivery(**{**values, **lists, "tries": Tries(**{**tries, **texts})})


def _helper(values: dict[str, Any]) -> HelperRights:
    lists = {name: tuple(values.get(name, ())) for name in ("tools", "rules", "extensions")}
    return HelperRights(**{**values, **lists})
