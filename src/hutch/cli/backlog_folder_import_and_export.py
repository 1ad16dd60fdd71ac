"""Imports and exports tasks of this machine as Backlog.md folders."""

import asyncio
import json
from pathlib import Path

import typer

from hutch.cli.local_task_services import local_tasks
from hutch.cli.repository_of_task_commands import repository_of
from hutch.domain.errors import BadRequest, NotFound
from hutch.flows.tasks.task_requests import task_repository
from hutch.flows.tasks.tasks_file_sync_and_import import import_backlog
from hutch.flows.tasks_file.backlog_folder_conversion import (
    FOLDER,
    MAX_FILE_CHARS,
    read_backlog,
    write_backlog,
)
from hutch.system.atomic_file import replace_file
from hutch.system.terminal_safe_text import printable

MAX_BACKLOG_FILES = 10_000


def import_backlog_folder(folder: Path, repository: str, *, as_json: bool) -> None:
    """Store the tasks of a Backlog.md folder."""
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


def export_backlog_folder(folder: Path, repository: str, *, as_json: bool) -> None:
    """Write all tasks of a repository as a Backlog.md folder."""

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
