"""`hutch workspace`: manage workspaces by hand.

Each command opens the workspace, does one operation and closes it, so every file operation of an
agent can be tried from a terminal.
"""

import asyncio
import os
import sys
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from hutch.app.allowed_local_repositories import repositories_of
from hutch.app.event_log import event_log
from hutch.app.forges import forges_of
from hutch.app.workspaces import workspaces_of
from hutch.cli.commands import workspace_file_operations
from hutch.cli.commands.run import PlainDirectory
from hutch.cli.commands.workspace_command_helpers import (
    Id,
    Json,
    Name,
    app,
    check_output,
    cleaned,
    load,
    opened,
    print_json,
)
from hutch.cli.directory_copy_consent import may_copy
from hutch.cli.new_session_request_body import expand_home
from hutch.cli.render.byte_size import byte_size
from hutch.cli.render.proposed_change import write_patch
from hutch.cli.render.session_rows import age
from hutch.domain.errors import BadRequest
from hutch.domain.time_parsing import parse_age_ms
from hutch.flows.requested_workspace_removal import (
    RemovedWorkspaces,
    remove_unused_workspaces,
    remove_workspaces,
)
from hutch.forge.forge_and_credential_selection import COMMAND_LINE
from hutch.forge.git_progress import Progress
from hutch.forge.repo_url import from_path
from hutch.snapshots.git_storage import Snapshot
from hutch.system.terminal_safe_text import printable
from hutch.workspace.lifecycle.workspace_record_and_directories import Record
from hutch.workspace.workspaces import Workspaces, fork_workspace

__all__ = ["app", "workspace_file_operations"]  # importing workspace_file_operations registers its commands


@app.command()
def prepare(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A directory, or the address of a git repository.")
    ],
    id: Name = None,
    revision: Annotated[
        str | None, typer.Option("--revision", "-r", metavar="REV", help="A branch, a tag or a commit.")
    ] = None,
    uncommitted: Annotated[bool, typer.Option("--uncommitted", help="Include uncommitted changes.")] = False,
    plain: PlainDirectory = False,
    as_json: Json = False,
) -> None:
    """Create a workspace from a repository or directory. Prints its id."""
    loaded = load()
    show = _Progress()
    source = expand_home(source)
    plain = may_copy(source, plain, asks=not as_json)

    async def work() -> Record:
        url = await forges_of(loaded).resolve_url(source, COMMAND_LINE)
        if url.path is not None and not plain:
            root = await asyncio.to_thread(repositories_of(loaded).find_root, url.path, unrestricted=True)
            url = replace(from_path(root), account=url.account)
        return await workspaces_of(loaded).prepare(
            url,
            id=id,
            revision=revision,
            uncommitted=uncommitted,
            plain=plain,
            on_progress=show,
        )

    record = asyncio.run(work())
    show.end()
    if as_json:
        print_json(asdict(record))
        return
    for note in record.notes:
        typer.echo(f"hutch: {note}", err=True)
    typer.echo(f"hutch: {record.mode} ({record.mode_reason})", err=True)
    typer.echo(record.id)


@app.command("ls")
def list_(
    id: Annotated[
        str | None, typer.Argument(metavar="WORKSPACE", help="A workspace; by default, list all workspaces.")
    ] = None,
    path: Annotated[str, typer.Argument(metavar="PATH", help="A directory in it.")] = "",
    recursive: Annotated[bool, typer.Option("--recursive", "-R", help="Include subdirectories.")] = False,
    ignores: Annotated[bool, typer.Option("--ignores", help="Omit the files that .gitignore names.")] = False,
    as_json: Json = False,
) -> None:
    """List workspaces, or the files of one. Workspaces have size and last use."""
    check_output()
    loaded = load()
    if id is None:
        _show_workspaces(asyncio.run(_sizes(workspaces_of(loaded))), as_json)
        return

    async def work() -> None:
        async with opened(id, loaded) as workspace:
            cursor: str | None = None
            while True:
                page = await workspace.entries(path, recursive=recursive, ignores=ignores, cursor=cursor)
                page = cleaned(page, loaded)
                for entry in page.entries:
                    if as_json:
                        print_json(asdict(entry))
                    else:
                        mark = {"directory": "/", "link": f" -> {entry.target}"}.get(entry.kind, "")
                        typer.echo(
                            f"{entry.mode:04o} {entry.size:>12} {printable(entry.path)}{printable(mark)}"
                        )
                if page.cursor is None:
                    return
                cursor = page.cursor

    asyncio.run(work())


@app.command()
def snapshot(
    id: Id,
    reason: Annotated[
        str, typer.Option("--reason", "-m", metavar="TEXT", help="A note, shown in the list of snapshots.")
    ] = "by hand",
    list_all: Annotated[bool, typer.Option("--list", help="List snapshots instead.")] = False,
    as_json: Json = False,
) -> None:
    """Take a snapshot of the current files, or list snapshots."""

    async def work() -> None:
        loaded = load()
        async with opened(id, loaded) as workspace:
            taken = await workspace.list_snapshots() if list_all else [await workspace.snapshot(reason)]
            if not list_all and taken[-1].reason != printable(cleaned(reason, loaded)):
                typer.echo("hutch: no new snapshot: no file has changed since this one", err=True)
            for each in taken:
                if as_json:
                    print_json(_snapshot(each))
                else:
                    when = each.taken_at.strftime("%Y-%m-%d %H:%M:%S")
                    typer.echo(f"{each.id:>5}  {when}  {each.files:>7} files  {printable(each.reason)}")

    asyncio.run(work())


@app.command()
def diff(
    id: Id,
    old: Annotated[
        int | None, typer.Argument(metavar="OLD", help="A snapshot; by default the first.")
    ] = None,
    new: Annotated[
        int | None, typer.Argument(metavar="NEW", help="A snapshot; by default the current files.")
    ] = None,
    path: Annotated[str, typer.Option("--path", metavar="PATH", help="Only changes below this path.")] = "",
    stat: Annotated[bool, typer.Option("--stat", help="List names and line counts only.")] = False,
    names: Annotated[bool, typer.Option("--names", help="List names only.")] = False,
    as_json: Json = False,
) -> None:
    """Show changes between two snapshots, or since one."""
    check_output()

    async def work() -> None:
        loaded = load()
        async with opened(id, loaded) as workspace:
            last = new if new is not None else (await workspace.snapshot("for a diff")).id
            first = old if old is not None else (await workspace.list_snapshots())[0].id
            if not (stat or names or as_json):
                text, cut = await workspace.patch(first, last, path=path)
                write_patch(cleaned(text, loaded))
                if cut:
                    typer.echo("hutch: the patch was cut; use --path or --stat", err=True)
                return
            for change in cleaned(await workspace.changes(first, last, path=path), loaded):
                if as_json:
                    print_json(asdict(change))
                    continue
                renamed = f"{printable(change.old_path)} -> " if change.old_path else ""
                numbers = "" if names else f"{_count(change.added):>6} {_count(change.deleted):>6}  "
                typer.echo(f"{numbers}{change.kind:<8} {renamed}{printable(change.path)}")

    asyncio.run(work())


@app.command()
def restore(
    id: Id,
    number: Annotated[
        int,
        typer.Argument(metavar="SNAPSHOT", help="A number, as listed by `hutch workspace snapshot --list`."),
    ],
    path: Annotated[str, typer.Argument(metavar="PATH", help="Restore only this path.")] = "",
    as_json: Json = False,
) -> None:
    """Restore all files, or a path, from a snapshot. Takes a snapshot of the current files first."""

    async def work() -> None:
        loaded = load()
        async with opened(id, loaded) as workspace:
            done = await workspace.restore(number, path)
            done = replace(
                done, changed=cleaned(done.changed, loaded), untouched=cleaned(done.untouched, loaded)
            )
            if as_json:
                print_json(
                    {
                        "before": _snapshot(done.before),
                        "after": _snapshot(done.after),
                        "changed": done.changed,
                        "untouched": done.untouched,
                    }
                )
                return
            for name in done.untouched:
                typer.echo(f"hutch: '{printable(name)}' is in no snapshot and was not changed", err=True)
            typer.echo(
                f"{len(done.changed)} paths restored. To undo: hutch workspace restore {id} {done.before.id}"
            )

    asyncio.run(work())


@app.command()
def fork(
    id: Id,
    number: Annotated[
        int | None, typer.Argument(metavar="SNAPSHOT", help="A snapshot; by default the current files.")
    ] = None,
    new_id: Name = None,
    as_json: Json = False,
) -> None:
    """Create a new workspace from a snapshot; print its id."""

    async def work() -> None:
        async with opened(id) as workspace:
            at = number if number is not None else (await workspace.snapshot("for a fork")).id
            record = await fork_workspace(workspace, at, new_id)
            print_json(asdict(record)) if as_json else typer.echo(record.id)

    asyncio.run(work())


@app.command()
def rm(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORKSPACE...", help="Workspace ids, as listed by `hutch workspace ls`."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Remove every workspace that is not in use.")
    ] = False,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="AGE", help="With --all: only those unused for this long: 7d, 12h or 30m."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Remove workspaces with all their snapshots.

    A session whose workspace is removed ends, and work that was not delivered is lost; its log stays.
    """
    if bool(ids) == everything:
        raise BadRequest("Name workspaces, or use --all. `hutch workspace ls` lists them.")
    if older_than is not None and not everything:
        raise BadRequest("--older-than needs --all: hutch workspace rm --all --older-than 7d")
    age_ms = 0 if older_than is None else parse_age_ms(older_than)
    loaded = load()

    async def work() -> RemovedWorkspaces:
        async with event_log(loaded) as log:
            if not everything:
                return await remove_workspaces(log, workspaces_of(loaded), ids or [])
            return await remove_unused_workspaces(log, workspaces_of(loaded), age_ms=age_ms)

    removed = asyncio.run(work())
    if as_json:
        print_json(asdict(removed))
    elif everything:
        for id, problem in removed.not_removed.items():
            typer.echo(f"hutch: '{id}' was not removed: {printable(problem)}", err=True)
        count = len(removed.ids)
        typer.echo(f"{count} workspace{'' if count == 1 else 's'} removed, {byte_size(removed.bytes)} freed.")


class _Progress:
    """Shows progress in one line on a terminal, and nothing elsewhere."""

    def __init__(self) -> None:
        self._shown = os.isatty(2)
        self._any = False

    def __call__(self, progress: Progress) -> None:
        if self._shown:
            of = f"/{progress.total:,}" if progress.total else ""
            sys.stderr.write(f"\r\x1b[K{progress.step} {progress.done:,}{of}")
            sys.stderr.flush()
            self._any = True

    def end(self) -> None:
        if self._any:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


async def _sizes(workspaces: Workspaces) -> "list[tuple[Record, int, int]]":
    """Each workspace with its size, and the time of its last use."""
    found = []
    for record in await workspaces.records():
        used_ms = await workspaces.last_used_ms(record.id)
        found.append((record, await workspaces.disk_bytes(record.id, used_ms), used_ms))
    return found


def _show_workspaces(found: "list[tuple[Record, int, int]]", as_json: bool) -> None:
    if not found and not as_json:
        typer.echo("There are no workspaces. Create one: hutch workspace prepare DIR", err=True)
    for record, size, used_ms in found:
        if as_json:
            print_json({**asdict(record), "bytes": size, "used_ms": used_ms})
            continue
        at = f" {record.commit[:12]}" if record.commit else ""
        source = printable(record.source or "starter files")
        typer.echo(f"{record.id:<34} {record.mode:<8} {byte_size(size):>10} {age(used_ms):>4}  {source}{at}")


def _snapshot(each: Snapshot) -> dict[str, Any]:
    return {**asdict(each), "taken_at": each.taken_at.isoformat()}


def _count(number: int | None) -> str:
    return "-" if number is None else str(number)
