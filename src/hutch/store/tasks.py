"""Tasks as rows, each with a revision: a change that was made from an older one is refused."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from hutch.domain.errors import Conflict, NotFound
from hutch.domain.one_line_text import echo
from hutch.domain.task import (
    NOBODY,
    Task,
    TaskEvent,
    TaskEventKind,
    TaskFilter,
    TaskLink,
    TaskViewer,
)
from hutch.store.schema import users
from hutch.store.table_access_interface import Rows
from hutch.store.task_rows import (
    event_from_row,
    history_row,
    links_of_tasks,
    task_differences,
    task_from_row,
    task_row,
    to_json_text,
)
from hutch.store.task_tables import task_history, task_links, tasks
from hutch.system.clock_without_jumps import wall_ms


class Tasks:
    """The tasks of an installation."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def add(
        self,
        task: Task,
        next_key: Callable[[set[str]], str],
        *,
        links: Sequence[TaskLink] = (),
        by: str = "",
    ) -> Task:
        """Store a new task with its links; without a key it gets the next one of its repository."""

        def add(connection: Connection) -> Task:
            used = select(tasks.c.key).where(tasks.c.repository == task.repository)
            keys = set(connection.scalars(used))
            added = replace(task, key=task.key or next_key(keys))
            _insert(connection, [added])
            for each in links:
                link_in(connection, added, each, by)
            return replace(added, links=(*added.links, *links))

        return await self._rows.change(add)

    async def get(self, task_id: str) -> Task | None:
        found = await self._select(select(tasks).where(tasks.c.id == task_id))
        return found[0] if found else None

    async def find(self, name: str, repository: str = "", viewer: TaskViewer | None = None) -> Task:
        """A task by its id, or by its key, in one repository or in the only one that has it.

        A task that the viewer may not see is answered like one that does not exist.
        """
        statement = select(tasks).where(or_(tasks.c.id == name, tasks.c.key == name))
        if viewer is not None:
            statement = statement.where(_visible(viewer))
        if repository:
            statement = statement.where(tasks.c.repository == repository)
        found = await self._select(statement.limit(10))
        if not found:
            raise NotFound(f"There is no task {echo(name)}. List them: hutch tasks list")
        if len(found) > 1:
            there = ", ".join(sorted(task.repository or "(none)" for task in found))
            raise Conflict(f"Several repositories have a task {echo(name)}: {there}. Name the repository.")
        return found[0]

    async def matching(self, which: TaskFilter, *, before: str = "", limit: int = 100) -> list[Task]:
        """The newest first."""
        statement = _filtered(which).order_by(tasks.c.id.desc()).limit(limit)
        if before:
            statement = statement.where(tasks.c.id < before)
        return await self._select(statement)

    async def of_repository(self, repository: str) -> list[Task]:
        """All tasks of a repository, archived ones too, the oldest first."""
        return await self._select(
            select(tasks).where(tasks.c.repository == repository).order_by(tasks.c.id), links=False
        )

    async def address_of(self, repository: str) -> str:
        """The address of a repository, as its newest task has it; empty if none has one."""
        here = (tasks.c.repository == repository, tasks.c.address != "")
        statement = select(tasks.c.address).where(*here).order_by(tasks.c.id.desc()).limit(1)
        return await self._rows.fetch(lambda connection: connection.scalar(statement) or "")

    async def newest_change(self, repository: str) -> tuple[int, int]:
        """Differs from an earlier result if a task of the repository was added or changed since."""
        statement = select(func.count(), func.coalesce(func.sum(tasks.c.revision), 0))
        statement = statement.where(tasks.c.repository == repository)
        row = await self._rows.fetch(lambda connection: connection.execute(statement).one())
        return int(row[0]), int(row[1])

    async def change(self, task: Task, changed: Task, *, by: str, note: str = "") -> Task:
        """Store another state of a task, unless it was changed since `task` was read."""
        return (await self.change_all([(task, changed)], by=by, note=note))[0]

    async def change_all(
        self, pairs: Sequence[tuple[Task | None, Task]], *, by: str, note: str = ""
    ) -> list[Task]:
        """Store new tasks (their old state is None) and changed ones; all of them, or none."""

        def write(connection: Connection) -> list[Task]:
            _insert(connection, [new for old, new in pairs if old is None])
            return [new if old is None else change_in(connection, old, new, by, note) for old, new in pairs]

        return await self._rows.change(write)

    async def set_address(self, task: Task, address: str) -> Task:
        """Store how git reaches the repository of a task. It is no change of the task."""
        here = update(tasks).where(tasks.c.id == task.id)
        await self._rows.change(lambda connection: connection.execute(here.values(address=address)))
        return replace(task, address=address)

    async def note(
        self,
        task: Task,
        kind: TaskEventKind,
        text: str,
        *,
        by: str,
        changes: Mapping[str, Any] | None = None,
    ) -> None:
        """Add an entry to the history of a task, without a change of the task."""
        row = history_row(task.id, kind, task.revision, by, text, changes or {})
        await self._rows.change(lambda connection: connection.execute(insert(task_history).values(row)))

    async def history(self, task_id: str, *, after: int = 0, limit: int = 200) -> list[TaskEvent]:
        """The oldest first."""
        name = case((task_history.c.by == "hutch", "Hutch"), else_=func.coalesce(users.c.name, ""))
        named = task_history.outerjoin(users, users.c.id == task_history.c.by)
        statement = select(task_history, name.label("by_name")).select_from(named)
        statement = statement.where(task_history.c.task_id == task_id)
        statement = statement.where(task_history.c.position > after).order_by(task_history.c.position)
        rows = await self._rows.fetch(
            lambda connection: connection.execute(statement.limit(limit)).mappings().all()
        )
        return [event_from_row(row) for row in rows]

    async def link(self, task: Task, link: TaskLink, *, by: str) -> None:
        """Add a link; one that is there stays."""
        await self._rows.change(lambda connection: link_in(connection, task, link, by))

    async def unlink(self, task: Task, link: TaskLink) -> None:
        row = {"task_id": task.id, "kind": link.kind, "target": link.target}
        statement = delete(task_links).where(*(task_links.c[name] == row[name] for name in row))
        await self._rows.change(lambda connection: connection.execute(statement).rowcount)

    async def _select(self, statement: Select[Any], *, links: bool = True) -> list[Task]:
        def read(connection: Connection) -> list[Task]:
            result = connection.execute(statement)
            names = tuple(result.keys())
            rows = [dict(zip(names, row, strict=True)) for row in result]
            found = links_of_tasks(connection, [row["id"] for row in rows]) if links else {}
            return [task_from_row(row, tuple(found.get(row["id"], ()))) for row in rows]

        return await self._rows.fetch(read)


def _visible(viewer: TaskViewer) -> ColumnElement[bool]:
    """The same as `TaskViewer.sees_repository`, for rows."""
    own = or_(tasks.c.created_by == viewer.user_id, tasks.c.owner == viewer.name)
    local = tasks.c.repository.startswith("/")
    below = [tasks.c.repository == root for root in viewer.roots]
    below += [tasks.c.repository.startswith(f"{root}/", autoescape=True) for root in viewer.roots]
    return or_(and_(tasks.c.repository == "", own), and_(tasks.c.repository != "", ~local), *below)


def _filtered(which: TaskFilter) -> Select[Any]:
    statement = select(tasks).where(tasks.c.archived == which.archived)
    if which.viewer is not None:
        statement = statement.where(_visible(which.viewer))
    for name in ("repository", "owner", "milestone", "priority"):
        if value := getattr(which, name):
            is_nobody = name == "owner" and value == NOBODY
            statement = statement.where(tasks.c[name] == ("" if is_nobody else value))
    if which.states:
        statement = statement.where(tasks.c.state.in_(which.states))
    if which.label:
        statement = statement.where(tasks.c.labels.contains(to_json_text(which.label), autoescape=True))
    if which.text:
        columns = (tasks.c.key, tasks.c.title, tasks.c.description)
        text = which.text.lower()
        statement = statement.where(
            or_(*(func.lower(column).contains(text, autoescape=True) for column in columns))
        )
    if which.link:
        linked = select(task_links.c.task_id).where(task_links.c.target == which.link)
        statement = statement.where(tasks.c.id.in_(linked))
    return statement


def _insert(connection: Connection, new: Sequence[Task]) -> None:
    for repository in {task.repository for task in new}:
        there = select(tasks.c.key).where(tasks.c.repository == repository)
        keys = {task.key for task in new if task.repository == repository}
        if used := keys.intersection(connection.scalars(there)):
            raise Conflict(f"There is a task {min(used)} in this repository already.")
    if new:
        history = [history_row(task.id, "created", task.revision, task.created_by, "", {}) for task in new]
        connection.execute(insert(tasks), [task_row(task) for task in new])
        connection.execute(insert(task_history), history)


def task_in(connection: Connection, task_id: str) -> Task:
    """A task within a transaction, without its links."""
    row = connection.execute(select(tasks).where(tasks.c.id == task_id)).mappings().first()
    if row is None:
        raise NotFound(f"There is no task {echo(task_id)}.")
    return task_from_row(dict(row), ())


def link_in(connection: Connection, task: Task, link: TaskLink, by: str) -> None:
    """Add a link within a transaction, one that is there stays."""
    row = {"task_id": task.id, "kind": link.kind, "target": link.target}
    there = select(task_links.c.by).where(*(task_links.c[name] == row[name] for name in row))
    if connection.execute(there).first() is None:
        connection.execute(insert(task_links).values(**row, by=by, at_ms=wall_ms()))


def change_in(connection: Connection, old: Task, new: Task, by: str, note: str) -> Task:
    """Change a task within a transaction, unless it was changed since `old` was read."""
    changes = task_differences(old, new)
    if not changes:
        return old
    stored = replace(new, revision=old.revision + 1, updated_ms=wall_ms())
    this = (tasks.c.id == old.id, tasks.c.revision == old.revision)
    if connection.execute(update(tasks).where(*this).values(task_row(stored))).rowcount != 1:
        raise Conflict(f"The task {old.key} was changed since revision {old.revision}. Read it again.")
    kind: TaskEventKind = "changed"
    if old.archived != new.archived:
        kind = "archived" if new.archived else "restored"
    row = history_row(old.id, kind, stored.revision, by, note, changes)
    connection.execute(insert(task_history).values(row))
    return stored
