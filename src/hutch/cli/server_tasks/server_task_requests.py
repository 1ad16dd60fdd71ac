"""Tasks of the server that commands use, also while it cannot be reached.

Reading prefers the server and falls back to the copy. A change is kept in the outbox first, then sent;
each command that reaches the server sends the outbox.
"""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import typer

from hutch.cli.saved_task_filter_conversion import filter_of, query_of
from hutch.cli.server_address_and_token import Address
from hutch.cli.server_tasks.server_reachability import is_reachable
from hutch.cli.server_tasks.task_copy_and_outbox import NEW, QueuedChange, TaskCopy
from hutch.cli.server_tasks.task_json_and_filter import event_from_json, matches, task_from_json, value_of
from hutch.domain.canonical_repository_name import repository_name
from hutch.domain.errors import BadRequest, Conflict, NotFound, Unavailable
from hutch.domain.task import Task, TaskEvent, TaskFilter
from hutch.settings import find_paths
from hutch.system.clock_without_jumps import wall_ms

MAX_NAMED = 5  # tasks in a notice
Prepare = Callable[[Task | None], QueuedChange]


class ServerTasks:
    """The tasks of one server, for one user."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.copy = TaskCopy(find_paths(), address)

    def search(self, which: TaskFilter, limit: int) -> list[Task]:
        if self._online(self._refresh):
            self._say_unstored()
        else:
            self._say_offline()
        name = repository_name(which.repository) if which.repository else ""
        which = replace(which, repository=name)
        found = [task for task in self.copy.tasks() if matches(_as_stored(task), which)]
        return found[:limit]

    def show(self, key: str, repository: str) -> tuple[Task, Sequence[TaskEvent]]:
        events: list[TaskEvent] = []

        async def work(client: Any) -> None:
            task = await get_task(client, key, repository)
            self.copy.update([task])
            events.extend(map(event_from_json, await _history(client, task["id"])))

        if key.startswith(NEW) or not self._online(work):
            self._say_offline()
        return self._find(key, repository), events

    def create(self, values: Mapping[str, Any], repository: str, description: str) -> Task:
        body = {**values, "repository": repository, "description": description}
        name = NEW + os.urandom(2).hex()

        def prepare(task: Task | None) -> QueuedChange:
            title = str(values["title"])
            return self.copy.queue(kind="create", task=name, key=name, title=title, values=body, before={})

        return self._change("", "", prepare)

    def change(self, key: str, repository: str, changes: Mapping[str, Any]) -> Task:
        def prepare(task: Task | None) -> QueuedChange:
            assert task is not None
            before = {name: value_of(task, name) for name in changes}
            return self._queue(task, kind="change", values=dict(changes), before=before)

        return self._change(key, repository, prepare)

    def comment(self, key: str, repository: str, text: str, *, progress: bool) -> None:
        def prepare(task: Task | None) -> QueuedChange:
            assert task is not None
            return self._queue(task, kind="comment", values={"text": text, "progress": progress}, before={})

        self._change(key, repository, prepare)

    # --- saved filters, which only the server has ---

    def filters(self) -> Mapping[str, TaskFilter]:
        found: dict[str, TaskFilter] = {}

        async def work(client: Any) -> None:
            items = (await client.get("/task-filters"))["items"]
            found.update({each["name"]: filter_of(each["query"]) for each in items})

        self._need_server(work)
        return found

    def save_filter(self, name: str, which: TaskFilter) -> None:
        self._need_server(lambda client: client.put(f"/task-filters/{quote(name)}", query_of(which)))

    def delete_filter(self, name: str) -> None:
        self._need_server(lambda client: client.delete(f"/task-filters/{quote(name)}"))

    def _need_server(self, work: Callable[[Any], Awaitable[None]]) -> None:
        if not self._online(work):
            raise Unavailable(f"The server at {self._address.url} does not respond, and it has your filters.")

    # --- the outbox ---

    def send(self) -> bool:
        """Send the outbox; False if the server cannot be reached."""
        return self._online(self._refresh)

    def resolve(self, change: QueuedChange, *, use_mine: bool, field: str = "") -> None:
        """Send the person's values over the stored ones, or keep those; only of `field`, if it is named."""
        if change.theirs is None:  # it was refused
            if use_mine:
                self.copy.replace(replace(change, status="waiting", problem=""))
            else:
                self.copy.drop(change)
            return
        chosen = {field} & set(change.fields) if field else set(change.fields)
        if not chosen:
            raise BadRequest(f"{field[:40]!r} is not in conflict; these are: {', '.join(change.fields)}.")
        theirs = task_from_json(change.theirs)
        values = {name: each for name, each in change.values.items() if use_mine or name not in chosen}
        left = tuple(name for name in change.fields if name not in chosen)
        if not values:
            self.copy.drop(change)
            return
        # Values that were read now are what the next comparison begins from.
        seen = {name: value_of(theirs, name) for name in values if name not in left}
        before = {**{name: change.before[name] for name in values if name in left}, **seen}
        status = "conflict" if left else "waiting"
        keeps = change.theirs if left else None
        self.copy.replace(
            replace(
                change,
                status=status,
                values=values,
                before=before,
                revision=theirs.revision,
                fields=left,
                theirs=keeps,
            )
        )

    def _queue(self, task: Task, **fields: Any) -> QueuedChange:
        return self.copy.queue(
            task=task.id, key=task.key, title=task.fields.title, revision=task.revision, **fields
        )

    def _change(self, key: str, repository: str, prepare: Prepare) -> Task:
        """Keep a change in the outbox, and send it if the server can be reached; the task after it."""
        queued: list[QueuedChange] = []
        stored: list[dict[str, Any]] = []

        async def work(client: Any) -> None:
            task = None
            if key and not key.startswith(NEW):
                found = await get_task(client, key, repository)
                self.copy.update([found])
                task = task_from_json(found)
            elif key:
                task = self._find(key, repository)
            queued.append(prepare(task))
            stored.extend(await self._deliver(client))

        is_sent = self._online(work)
        if not queued:
            queued.append(prepare(self._find(key, repository) if key else None))
        if is_sent:
            self._say_unstored(but=queued[0].id)
        else:
            self._say_offline()
        return self._outcome(queued[0], stored)

    def _outcome(self, queued: QueuedChange, stored: Sequence[Mapping[str, Any]]) -> Task:
        left = next((each for each in self.copy.changes() if each.id == queued.id), None)
        if left is not None and left.status == "refused":
            self.copy.drop(left)  # the person is here and reads why
            raise BadRequest(left.problem)
        if left is not None and left.status == "conflict":
            raise Conflict(
                f"{left.key} was changed by somebody else meanwhile ({', '.join(left.fields)}). "
                "Your change is kept. Compare and choose: hutch tasks conflicts"
            )
        if stored and queued.kind == "create":
            return task_from_json(stored[-1])
        return next(task for task in self.copy.tasks() if task.id == queued.task)

    async def _deliver(self, client: Any) -> Sequence[dict[str, Any]]:
        from hutch.cli.server_tasks.outbox_delivery import deliver_alone

        stored = await deliver_alone(client, self.copy)
        self.copy.update(stored)
        return stored

    async def _refresh(self, client: Any) -> None:
        from hutch.cli.server_tasks.outbox_delivery import refresh

        await self._deliver(client)
        await refresh(client, self.copy)

    def _online(self, work: Callable[[Any], Awaitable[None]]) -> bool:
        """True if the server could be asked."""
        if not is_reachable(self._address, self.copy):
            return False
        from hutch.cli.server_tasks.outbox_delivery import run_with_client

        return run_with_client(self._address, work)

    def _find(self, key: str, repository: str) -> Task:
        name = repository_name(repository) if repository else ""
        everything = self.copy.tasks()
        found = [task for task in everything if key in (task.key, task.id)]
        here = [task for task in found if name in ("", _as_stored(task).repository)] or found
        if not here:
            age = " You are offline; there may be newer ones." if everything else ""
            raise NotFound(f"There is no task {key[:40]!r}.{age} List them: hutch tasks list")
        if len(here) > 1:
            there = ", ".join(sorted(task.repository or "(none)" for task in here))
            raise Conflict(f"Several repositories have a task {key[:40]!r}: {there}. Name one: --repo")
        return here[0]

    def _say_offline(self) -> None:
        at_ms, count = self.copy.summary()["at_ms"], self.copy.count()
        if not at_ms and not count:
            raise Unavailable(
                f"The server at {self._address.url} does not respond, and its tasks were never copied here."
            )
        waits = f" {count} {'change waits' if count == 1 else 'changes wait'} to be sent." if count else ""
        typer.echo(
            f"hutch: offline, {self._address.url} does not respond. "
            f"Tasks as of {age_text(wall_ms() - at_ms) if at_ms else 'never'}.{waits}",
            err=True,
        )

    def _say_unstored(self, but: str = "") -> None:
        """Name the tasks whose earlier changes the server did not store."""
        left = [each for each in self.copy.changes() if each.status != "waiting" and each.id != but]
        if keys := list(dict.fromkeys(each.key for each in left)):
            more = f" and {len(keys) - MAX_NAMED} more" if len(keys) > MAX_NAMED else ""
            typer.echo(
                f"hutch: not stored: your earlier {'change' if len(left) == 1 else 'changes'} of "
                f"{', '.join(keys[:MAX_NAMED])}{more}. Compare and choose: hutch tasks conflicts",
                err=True,
            )


def age_text(age_ms: int) -> str:
    """Such as `3 minutes ago`."""
    seconds = max(0, age_ms // 1000)
    for size, name in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if count := seconds // size:
            return f"{count} {name}{'' if count == 1 else 's'} ago"
    return f"{seconds} s ago"


async def get_task(client: Any, key: str, repository: str) -> dict[str, Any]:
    """A task by its key, in the current repository or in the only one that has it."""
    try:
        return dict(await client.get(f"/tasks/{_quoted(key)}", repository=repository))
    except NotFound:
        if not repository:
            raise
        return dict(await client.get(f"/tasks/{_quoted(key)}"))


async def _history(client: Any, task_id: str) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = await client.get(f"/tasks/{task_id}/history", limit=200, cursor=cursor)
        found += page["items"]
        cursor = page["next"]
    return found


def _quoted(key: str) -> str:
    return key.replace("#", "%23").replace("/", "%2F").replace("?", "%3F")


def _as_stored(task: Task) -> Task:
    """The task with the name of its repository: one that is not sent has the address that was typed."""
    if task.revision or not task.repository:
        return task
    return replace(task, repository=repository_name(task.repository))
