"""`hutch tasks sync`, `import` and `export`: tasks as files of a repository."""

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from hutch import settings
from hutch.cli.local_tasks import Json, Repository, local_tasks, repository_of, repository_root
from hutch.cli.tasks_file_on_disk import DEFAULT_FILE, TasksFileOnDisk
from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.domain.user import Caller
from hutch.flows.tasks.task_file_sync import import_backlog, sync_text
from hutch.flows.tasks.task_requests import TaskServices, task_repository
from hutch.flows.tasks_file.backlog_folder import FOLDER, MAX_FILE_CHARS, read_backlog, write_backlog
from hutch.flows.tasks_file.tasks_file_sync import SyncOutcome
from hutch.system.atomic_file import replace_file
from hutch.system.terminal_text import printable

WATCH_INTERVAL_S = 1.0
MAX_ATTEMPTS = 5  # if the file is saved by others while it is synced
MAX_BACKLOG_FILES = 10_000


def register_file_commands(app: typer.Typer) -> None:
    app.command()(sync)
    app.command("import")(import_)
    app.command()(export)


def sync(
    file: Annotated[
        str, typer.Option("--file", metavar="PATH", help=f"The file; {DEFAULT_FILE} of the repository.")
    ] = "",
    watch: Annotated[bool, typer.Option("--watch", help="Sync on every change, until Ctrl-C.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the new text; change nothing.")] = False,
    allow_removals: Annotated[
        bool, typer.Option("--allow-removals", help="Accept that most tasks are gone from the file.")
    ] = False,
    repository: Repository = "",
    as_json: Json = False,
) -> None:
    """Bring the tasks and docs/TASKS.md together, in both directions."""
    path = Path(file) if file else repository_root() / DEFAULT_FILE
    on_disk = TasksFileOnDisk(path.absolute(), settings.load().paths.state / "task-files")
    where = repository_of(repository)

    async def once(services: TaskServices, who: Caller) -> SyncOutcome:
        for _ in range(MAX_ATTEMPTS):
            text = on_disk.read()
            outcome = await sync_text(
                services,
                who,
                repository=where,
                base=on_disk.base(),
                text=text,
                allow_removals=allow_removals,
                dry_run=dry_run,
            )
            if dry_run or on_disk.write(text, outcome.text):
                return outcome
        raise Conflict(f"{path} was changed again and again during the sync. Repeat it.")

    async def work() -> None:
        async with local_tasks() as (services, who):
            seen = None
            while True:
                # Before the sync: a change during it is noticed, and its own at most repeats it.
                now = on_disk.stamp(), await services.tasks.newest_change(task_repository(where))
                if now != seen:
                    _report(await once(services, who), as_json, dry_run)
                    seen = now
                else:
                    await asyncio.sleep(WATCH_INTERVAL_S)
                if not watch or dry_run:
                    return

    asyncio.run(work())


def _report(outcome: SyncOutcome, as_json: bool, dry_run: bool) -> None:
    if as_json:
        conflicts = [{**asdict(each), "remedy": each.remedy} for each in outcome.conflicts]
        typer.echo(json.dumps({**asdict(outcome), "conflicts": conflicts}))
        return
    if dry_run:
        typer.echo(outcome.text, nl=False)
    for update in outcome.updates:
        typer.echo(printable(f"{update.kind} {update.key} {update.fields.title}"), err=dry_run)
    for renumbered in outcome.renumbered:
        line = f"renumbered {renumbered.old_key} to {renumbered.new_key}: {renumbered.title}"
        typer.echo(printable(line), err=dry_run)
    for conflict in outcome.conflicts:
        line = (
            f"conflict {conflict.key} {conflict.field}: file {conflict.file!r}, stored {conflict.stored!r}. "
        )
        typer.echo(printable(line + conflict.remedy), err=True)


def import_(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder of Backlog.md.")] = Path(FOLDER),
    repository: Repository = "",
    as_json: Json = False,
) -> None:
    """Import a folder of Backlog.md. Tasks with the same key are updated."""
    if not folder.is_dir():
        raise NotFound(f"There is no folder {folder}.")
    files: dict[str, str] = {}
    for path in sorted(folder.rglob("*.md")):
        inside = path.relative_to(folder).as_posix()
        if not path.is_symlink() and inside.startswith(("tasks/", "completed/", "archive/tasks/")):
            if path.stat().st_size > MAX_FILE_CHARS or len(files) == MAX_BACKLOG_FILES:
                raise BadRequest(f"{path} is too large, or the folder has over {MAX_BACKLOG_FILES:,} tasks.")
            files[inside] = path.read_text(encoding="utf-8", errors="replace")
    found = read_backlog(files)

    async def work() -> tuple[int, int]:
        async with local_tasks() as (services, who):
            return await import_backlog(services, who, found, repository=repository_of(repository))

    added, changed = asyncio.run(work())
    if as_json:
        typer.echo(json.dumps({"added": added, "changed": changed, "problems": found.problems}))
        return
    for problem in found.problems:
        typer.echo(printable(problem), err=True)
    typer.echo(f"{added} added, {changed} changed.")


def export(
    folder: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Gets a folder `backlog`.")] = Path(),
    repository: Repository = "",
    as_json: Json = False,
) -> None:
    """Write all tasks as a Backlog.md folder."""

    async def work() -> dict[str, str]:
        async with local_tasks() as (services, _):
            where = task_repository(repository_of(repository))
            return write_backlog(await services.tasks.of_repository(where))

    files = asyncio.run(work())
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text)
    typer.echo(
        json.dumps({"files": sorted(files)}) if as_json else f"{len(files)} files in {folder / FOLDER}."
    )
