"""`hutch tasks sync`, `import`, `export` and `issues`: tasks in files of a repository, and on GitHub."""

import json
from pathlib import Path
from typing import Annotated

import typer

from hutch.cli.repository_of_task_commands import Json, Local, Repository
from hutch.cli.tasks_file_on_disk import DEFAULT_FILE


def register_file_commands(app: typer.Typer) -> None:
    app.command()(sync)
    app.command("import")(import_)
    app.command()(export)
    app.command()(issues)


def sync(
    file: Annotated[
        str,
        typer.Option(
            "--file", metavar="PATH", help=f"The file; by default {DEFAULT_FILE} of the repository."
        ),
    ] = "",
    watch: Annotated[bool, typer.Option("--watch", help="Sync on every change, until Ctrl-C.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the new text; change nothing.")] = False,
    allow_removals: Annotated[
        bool, typer.Option("--allow-removals", help="Accept that most tasks are gone from the file.")
    ] = False,
    repository: Repository = "",
    local: Local = False,
    as_json: Json = False,
) -> None:
    """Bring the tasks and docs/TASKS.md together, in both directions."""
    from hutch.cli.tasks_file_sync import SyncOptions, sync_tasks_file

    options = SyncOptions(watch=watch, dry_run=dry_run, allow_removals=allow_removals, as_json=as_json)
    sync_tasks_file(file, repository, options, local=local)


def import_(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder of Backlog.md.")] = Path(
        "backlog"
    ),
    repository: Repository = "",
    as_json: Json = False,
) -> None:
    """Import a folder of Backlog.md. Tasks with the same key are updated."""
    from hutch.cli.backlog_folder_import_and_export import import_backlog_folder

    import_backlog_folder(folder, repository, as_json=as_json)


def export(
    folder: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="Where to write the folder `backlog`.")
    ] = Path(),
    repository: Repository = "",
    as_json: Json = False,
) -> None:
    """Write all tasks as a Backlog.md folder."""
    from hutch.cli.backlog_folder_import_and_export import export_backlog_folder

    export_backlog_folder(folder, repository, as_json=as_json)


def issues(repository: Repository = "", local: Local = False, as_json: Json = False) -> None:
    """Create tasks from the open issues of the repository on GitHub.

    A task whose issue was closed is ended.
    """
    from hutch.cli.github_issue_import import import_issues

    found = import_issues(repository, local=local)
    added, ended = (", ".join(found[name]) or "none" for name in ("added", "ended"))
    typer.echo(json.dumps(dict(found)) if as_json else f"Added: {added}. Ended: {ended}.")
