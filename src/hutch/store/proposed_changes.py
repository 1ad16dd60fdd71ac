"""The changes of an installation, as rows."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, Select, insert, or_, select, update

from hutch.domain.errors import Conflict, NotFound
from hutch.domain.events import SessionRewound
from hutch.domain.ids import ambiguous_id, resolve_id
from hutch.domain.proposed_change import Change, ChangeState
from hutch.store.schema import changes, events, logs, sessions, users
from hutch.store.shares import shared_with
from hutch.store.table_access_interface import Rows


async def _select(rows: Rows, statement: Select[Any]) -> list[Change]:
    found = await rows.fetch(lambda connection: connection.execute(statement).mappings().all())
    return [Change(**row) for row in found]


def _place(repository: str) -> str:
    """A repository's URL, normalised for comparison."""
    return repository.rstrip("/").removesuffix(".git").lower()


def _find(connection: Connection, change_id: str) -> Change | None:
    row = connection.execute(select(changes).where(changes.c.id == change_id)).mappings().first()
    return Change(**row) if row else None


def _named(connection: Connection, name: str) -> Change | None:
    if found := _find(connection, name):
        return found
    newest = select(changes.c.id).order_by(changes.c.id.desc())
    if name == "last":
        ids = list(connection.scalars(newest.limit(1)))
    else:
        called = (changes.c.web_url if "://" in name else changes.c.branch) == name
        ids = list(connection.scalars(newest.where(called)))
    if len(ids) > 1:
        raise ambiguous_id(ids, name, "changes")
    if not ids:
        fitting = newest.where(changes.c.id.contains(name, autoescape=True))
        meant = resolve_id(connection.scalars(fitting), name, "changes")
        ids = [meant] if meant else []
    return _find(connection, ids[0]) if ids else None


class Changes:
    """Proposed changes."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def add(self, change: Change) -> None:
        await self._rows.change(lambda connection: connection.execute(insert(changes).values(asdict(change))))

    async def list(
        self,
        *,
        user_id: str | None = None,
        session_id: str = "",
        state: ChangeState | None = None,
        before: str = "",
        limit: int = 100,
    ) -> "list[Change]":
        """The newest first; with `user_id`, those of sessions that this user owns or shares."""
        statement = select(changes).order_by(changes.c.id.desc()).limit(limit)
        if user_id is not None:
            shared = shared_with(user_id)
            own = select(sessions.c.id).where(or_(sessions.c.owner == user_id, sessions.c.id.in_(shared)))
            statement = statement.where(changes.c.session_id.in_(own))
        if session_id:
            statement = statement.where(changes.c.session_id == session_id)
        if state is not None:
            statement = statement.where(changes.c.state == state)
        if before:
            statement = statement.where(changes.c.id < before)
        return await _select(self._rows, statement)

    async def get(self, change_id: str) -> Change | None:
        """A change by its whole id."""
        return await self._rows.fetch(lambda connection: _find(connection, change_id))

    async def find(self, name: str) -> Change:
        """Find a change by its id, a prefix or suffix of it, its branch, its URL on a forge, or `last`.

        An exact id always wins: branches and URLs are chosen by others.
        """
        found = await self._rows.fetch(lambda connection: _named(connection, name))
        if found is None:
            raise NotFound(f"There is no change '{name}'. `hutch changes list` lists all.")
        return found

    async def is_of_owner(self, change: Change) -> bool:
        """True if its session belongs to an owner, or to a local user (whose sessions have no rows).

        Owners and local users may work on any repository of the machine.
        """
        statement = select(users.c.role, sessions.c.id)
        statement = statement.select_from(sessions.outerjoin(users, users.c.id == sessions.c.owner))
        statement = statement.where(sessions.c.id == change.session_id)
        row = await self._rows.fetch(lambda connection: connection.execute(statement).first())
        return row is None or row[0] == "owner"

    async def of_number(self, number: int) -> Sequence[Change]:
        """Changes with this pull request number, in any repository; newest first."""
        statement = select(changes).where(changes.c.number == number, changes.c.forge == "github")
        statement = statement.order_by(changes.c.id.desc())
        return await _select(self._rows, statement)

    async def pull(self, repository: str, number: int) -> Change | None:
        """The newest change that was proposed as this pull request."""
        same = _place(repository)
        found = await self.of_number(number)
        return next((each for each in found if _place(each.repository) == same), None)

    async def rewound_sessions(self, session_ids: Collection[str]) -> set[str]:
        """Those sessions in which something was undone."""
        statement = select(logs.c.session_id).join(events, events.c.log_id == logs.c.id).distinct()
        statement = statement.where(
            logs.c.session_id.in_(session_ids), events.c.type == SessionRewound.model_fields["type"].default
        )
        return await self._rows.fetch(lambda connection: set(connection.scalars(statement)))

    async def of_run(self, run_id: str) -> Change | None:
        """The change that a run has proposed, if any."""
        statement = select(changes).where(changes.c.run_id == run_id).limit(1)
        return next(iter(await _select(self._rows, statement)), None)

    async def open_of_session(self, session_id: str) -> Change | None:
        """The newest open change of a session. Further commits are added to it."""
        statement = select(changes).where(changes.c.session_id == session_id, changes.c.state == "open")
        statement = statement.order_by(changes.c.id.desc()).limit(1)
        return next(iter(await _select(self._rows, statement)), None)

    async def update(self, change: Change) -> None:
        """Store a further commit by another run."""
        names = ("run_id", "commit", "title", "body", "tests", "number", "web_url", "state")
        statement = update(changes).where(changes.c.id == change.id)
        values = {name: getattr(change, name) for name in names}
        await self._rows.change(lambda connection: connection.execute(statement.values(values)))

    async def replace_commit(self, change: Change, *, commit: str, base_commit: str) -> None:
        """Store another commit of a change that Hutch makes itself, on top of a newer base."""
        statement = update(changes).where(changes.c.id == change.id, changes.c.state == "open")
        values = {"commit": commit, "base_commit": base_commit}
        await self._rows.change(lambda connection: connection.execute(statement.values(values)))

    async def reopen(self, change: Change) -> Change:
        """Mark a closed change as open, because it was reopened on its forge."""
        statement = update(changes).where(changes.c.id == change.id, changes.c.state == "closed")
        await self._rows.change(lambda connection: connection.execute(statement.values(state="open")))
        return await self.find(change.id)

    async def end(self, change: Change, state: ChangeState, *, merged_commit: str = "") -> None:
        """Mark an open change as merged or closed. Only the first call succeeds."""
        statement = (
            update(changes)
            .where(changes.c.id == change.id, changes.c.state == "open")
            .values(state=state, merged_commit=merged_commit)
        )
        count = await self._rows.change(lambda connection: connection.execute(statement).rowcount)
        if count != 1:
            raise Conflict(f"The change {change.id} is no longer open.")
