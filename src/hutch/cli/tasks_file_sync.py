"""Brings a TASKS.md on disk and the tasks of this machine, or of the server in use, together."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Hashable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import typer

from hutch.cli.api_client import Client
from hutch.cli.local_only_notice import other_server
from hutch.cli.local_task_services import local_tasks
from hutch.cli.repository_of_task_commands import repository_of, repository_root
from hutch.cli.server_address_and_token import Address
from hutch.cli.server_tasks.task_copy_and_outbox import TaskCopy
from hutch.cli.tasks_file_on_disk import DEFAULT_FILE, TasksFileOnDisk
from hutch.domain.errors import BadRequest, Conflict, HutchError
from hutch.domain.lone_surrogate_replacement import replace_surrogates
from hutch.domain.user import Caller
from hutch.flows.tasks.task_requests import TaskServices, task_repository
from hutch.flows.tasks.tasks_file_sync_and_import import sync_text
from hutch.settings import find_paths
from hutch.system.lazy_dataclass import dataclass
from hutch.system.terminal_safe_text import printable

WATCH_INTERVAL_S = 1.0
SERVER_INTERVAL_S = 5.0  # between two questions to a server whether its tasks have changed
MAX_ATTEMPTS = 5  # if the file is saved by others while it is synced
FINDINGS = ("updates", "conflicts", "renumbered", "removed_lines", "written_lines")
Result = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncOptions:
    """The options of the command."""

    watch: bool
    dry_run: bool
    allow_removals: bool
    as_json: bool


class SyncedTasks(Protocol):
    """The stored tasks of one repository."""

    async def sync(self, base: str, text: str, options: SyncOptions) -> Result:
        """The merged text, and what was changed."""
        ...

    async def stamp(self) -> Hashable:
        """Differs from an earlier one if tasks may have changed since."""
        ...


@dataclass(frozen=True, slots=True)
class LocalTasksOfFile:
    """Those of this machine."""

    services: TaskServices
    caller: Caller
    repository: str

    async def sync(self, base: str, text: str, options: SyncOptions) -> Result:
        outcome = await sync_text(
            self.services,
            self.caller,
            repository=self.repository,
            base=base,
            text=text,
            allow_removals=options.allow_removals,
            dry_run=options.dry_run,
        )
        updates = [{**asdict(each), "title": each.fields.title} for each in outcome.updates]
        conflicts = [{**asdict(each), "remedy": each.remedy} for each in outcome.conflicts]
        return {**asdict(outcome), "updates": updates, "conflicts": conflicts}

    async def stamp(self) -> Hashable:
        return await self.services.tasks.newest_change(task_repository(self.repository))


@dataclass(frozen=True, slots=True)
class ServerTasksOfFile:
    """Those of a server. Its changes are noticed within a few seconds."""

    client: Client
    repository: str

    async def sync(self, base: str, text: str, options: SyncOptions) -> Result:
        if replace_surrogates(text) != text:
            raise BadRequest("The file is not UTF-8. Convert it, or sync it with this machine: --local")
        body = {"repository": self.repository, "base": base, "text": text}
        flags = {"allow_removals": options.allow_removals, "dry_run": options.dry_run}
        answer = await self.client.post("/tasks/sync", {**body, **flags})
        return {**answer, "updates": answer["changed"]}

    async def stamp(self) -> Hashable:
        return time.monotonic() // SERVER_INTERVAL_S


def sync_tasks_file(file: str, repository: str, options: SyncOptions, *, local: bool) -> None:
    """Bring the tasks and a file together; with `watch` on every change, until Ctrl-C."""
    path = (Path(file) if file else repository_root() / DEFAULT_FILE).absolute()
    address, paths = None if local else other_server(), find_paths()
    where = repository_of(repository, on_server=address is not None)
    if address is not None and not where:
        raise BadRequest("This repository has no remote that the server knows. Name one: --repo ADDRESS")
    # The text after the last sync belongs to the tasks that the file was synced with.
    bases = TaskCopy(paths, address).directory if address is not None else paths.state
    on_disk = TasksFileOnDisk(path, bases / "task-files", where)

    async def work() -> None:
        async with _open_tasks(address, where) as tasks:
            await _follow(tasks, on_disk, options)

    asyncio.run(work())


@asynccontextmanager
async def _open_tasks(address: Address | None, repository: str) -> AsyncIterator[SyncedTasks]:
    if address is not None:
        async with Client(lambda: address) as client:
            yield ServerTasksOfFile(client, repository)
        return
    async with local_tasks() as (services, who):
        yield LocalTasksOfFile(services, who, repository)


async def _follow(tasks: SyncedTasks, on_disk: TasksFileOnDisk, options: SyncOptions) -> None:
    """Sync once, or on every change. A failure while a file is watched is reported once, and tried again."""
    seen: Hashable = None
    said = ""
    while True:
        try:
            # Before the sync: a change during it is noticed, and its own at most repeats it.
            now = on_disk.stamp(), await tasks.stamp()
            if now != seen:
                result = await _sync(tasks, on_disk, options)
                if seen is None or any(result[name] for name in FINDINGS):
                    _report(result, on_disk.path.name, options)
                seen, said = now, ""
        except HutchError as error:
            if not options.watch or options.dry_run:
                raise
            if str(error) != said:
                said = str(error)
                typer.echo(printable(f"hutch: {said} The file is still watched."), err=True)
        if not options.watch or options.dry_run:
            return
        await asyncio.sleep(WATCH_INTERVAL_S)


async def _sync(tasks: SyncedTasks, on_disk: TasksFileOnDisk, options: SyncOptions) -> Result:
    for _ in range(MAX_ATTEMPTS):
        text, base = on_disk.read(), on_disk.base()
        # A file that was deleted is written again, with all its lines; its tasks are not archived.
        result = await tasks.sync(base, text if on_disk.exists() else base, options)
        if options.dry_run or on_disk.write(text, result["text"]):
            new_lines = Counter(result["text"].splitlines()) - Counter(text.splitlines())
            return {**result, "written_lines": new_lines.total()}
    raise Conflict(f"{on_disk.path} changed during each attempt to sync it. Run the sync again.")


def _report(result: Result, file: str, options: SyncOptions) -> None:
    if options.as_json:
        typer.echo(json.dumps(result))
        return
    if options.dry_run:
        typer.echo(result["text"], nl=False)
    for update in result["updates"]:
        typer.echo(printable(f"{update['kind']} {update['key']} {update['title']}"), err=options.dry_run)
    for each in result["renumbered"]:
        line = f"renumbered {each['old_key']} to {each['new_key']}: {each['title']}"
        typer.echo(printable(line), err=options.dry_run)
    for each in result["conflicts"]:
        values = f"file {each['file']!r}, stored {each['stored']!r}"
        line = f"conflict {each['key']} {each['field']}: {values}. {each['remedy']}"
        typer.echo(printable(line), err=True)
    verb = "would be written" if options.dry_run else "written"
    if count := result["written_lines"]:
        typer.echo(f"{file}: {count:,} {'line' if count == 1 else 'lines'} {verb}", err=options.dry_run)
    elif not any(result[name] for name in FINDINGS):
        typer.echo(f"{file} and the tasks agree.", err=options.dry_run)
