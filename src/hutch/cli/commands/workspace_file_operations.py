"""`hutch workspace cat`, `write`, `edit`, `grep` and `search`: an agent's operations on files."""

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from hutch.app import jails
from hutch.app.workspaces import settings_for
from hutch.cli.commands.workspace_command_helpers import (
    Id,
    Json,
    app,
    check_output,
    cleaned,
    load,
    opened,
    print_json,
)
from hutch.domain.errors import BadRequest
from hutch.system.terminal_safe_text import printable
from hutch.workspace.code_search.ranked_matches import CodeQuery
from hutch.workspace.code_search.workspace_code_search import search_code
from hutch.workspace.files.partial_read import Binary
from hutch.workspace.ripgrep_search import GrepQuery

MAX_LINE_CHARS = 300
FilePath = Annotated[str, typer.Argument(metavar="PATH", help="A file, as a path in the workspace.")]
SearchPath = Annotated[
    str, typer.Argument(metavar="PATH", help="A file or directory; by default the workspace.")
]
Glob = Annotated[
    str | None, typer.Option("--glob", "-g", metavar="GLOB", help="Only files that match, such as '*.py'.")
]
IgnoreCase = Annotated[bool, typer.Option("--ignore-case", "-i", help="Ignore the case of letters.")]
Multiline = Annotated[bool, typer.Option("--multiline", "-U", help="Let a match extend over several lines.")]
Context = Annotated[
    int, typer.Option("--context", "-C", metavar="N", min=0, max=50, help="Lines around each match.")
]
Limit = Annotated[
    int, typer.Option("--limit", metavar="N", min=1, help="The maximum number of lines or files shown.")
]
Output = Annotated[
    str,
    typer.Option(
        "--output",
        metavar="content|files|count",
        help="Show matching lines, only the names of files, or the matches per file.",
    ),
]


@app.command()
def cat(
    id: Id,
    path: FilePath,
    lines: Annotated[
        str | None, typer.Option("--lines", metavar="A:B", help="Only lines A to B; A: and :B work too.")
    ] = None,
    snapshot: Annotated[
        int | None, typer.Option("--snapshot", "-s", metavar="N", help="Read it from this snapshot.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print a file, or lines of it, from the workspace or a snapshot."""
    first, last = _range(lines)
    check_output()

    async def work() -> None:
        async with opened(id) as workspace:
            if snapshot is not None:
                for part in await asyncio.to_thread(lambda: list(workspace.snapshots.read(snapshot, path))):
                    sys.stdout.buffer.write(part)
                return
            if lines is None and not as_json:
                data, _ = await asyncio.to_thread(workspace.files.read_bytes, path)
                sys.stdout.buffer.write(data)
                return
            found = await workspace.read(path, first, last)
            if as_json:
                print_json(asdict(found))
            elif isinstance(found, Binary):
                raise BadRequest(f"'{path}' is {found.kind}, {found.size:,} bytes, and has no lines.")
            else:
                typer.echo(found.text, nl=not found.text.endswith("\n"))

    asyncio.run(work())


@app.command()
def write(id: Id, path: FilePath, as_json: Json = False) -> None:
    """Write a file from standard input."""
    data = sys.stdin.buffer.read()

    async def work() -> None:
        loaded = load()
        async with opened(id, loaded) as workspace:
            (change,) = cleaned([await workspace.write(path, data)], loaded)
            print_json(asdict(change)) if as_json else typer.echo(f"{change.kind} {printable(change.path)}")

    asyncio.run(work())


@app.command()
def edit(
    id: Id,
    path: Annotated[
        str | None, typer.Argument(metavar="PATH", help="The file; omit it with --patch.")
    ] = None,
    old: Annotated[str | None, typer.Option("--old", metavar="TEXT", help="The text to replace.")] = None,
    new: Annotated[str | None, typer.Option("--new", metavar="TEXT", help="The replacement.")] = None,
    replace_all: Annotated[bool, typer.Option("--all", help="Replace every occurrence.")] = False,
    lines: Annotated[
        str | None, typer.Option("--lines", metavar="A:B", help="Replace lines A to B with --new.")
    ] = None,
    insert: Annotated[
        int | None, typer.Option("--insert", metavar="N", help="Insert --new after line N; 0 is the top.")
    ] = None,
    patch: Annotated[
        str | None, typer.Option("--patch", metavar="FILE", help="Apply a patch; - is standard input.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Edit a file as an agent would: every edit applies, or none."""
    edits = [] if patch is not None else [_edit(path, old, new, replace_all, lines, insert)]
    text = None if patch is None else _patch_text(patch)

    async def work() -> None:
        loaded = load()
        async with opened(id, loaded) as workspace:
            if text is not None:
                edited = await workspace.apply_patch(text)
            else:
                assert path is not None
                edited = await workspace.edit(path, edits)
            edited = cleaned(edited, loaded)
            print_json(asdict(edited) | {"diff": edited.diff}) if as_json else typer.echo(edited.text)

    asyncio.run(work())


@app.command()
def grep(
    id: Id,
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="A regular expression.")],
    path: SearchPath = "",
    glob: Glob = None,
    ignore_case: IgnoreCase = False,
    multiline: Multiline = False,
    context: Context = 0,
    limit: Limit = 200,
    output: Output = "content",
    as_json: Json = False,
) -> int:
    """Search the files, in a jail. Exit code 1 when nothing is found."""
    if output not in ("content", "files", "count"):
        raise BadRequest(f"--output is {output!r}. Use content, files or count.")
    query = GrepQuery(
        pattern=pattern,
        path=path,
        glob=glob,
        ignore_case=ignore_case,
        multiline=multiline,
        context=context,
        limit=limit,
        output=output,  # type: ignore[arg-type]
    )

    check_output()

    async def work() -> int:
        loaded = load()
        async with opened(id, loaded) as workspace:
            settings = settings_for(loaded, workspace.record).settings
            policy = await workspace.policy(jails.jail_policy(settings, profile_name="tool"))
            async with jails.open_jail(workspace.place, policy) as jail:
                found = await workspace.grep(jail, query, ignore=settings.ignore)
        found = cleaned(found, loaded)
        if as_json:
            print_json(asdict(found))
        else:
            for line in found.lines:
                typer.echo(f"{printable(line.path)}:{line.number}{':' if line.matched else '-'}{line.text}")
            for name in found.paths:
                typer.echo(printable(name))
            for name, count in found.counts.items():
                typer.echo(f"{printable(name)}:{count}")
            if found.cut:
                typer.echo(
                    f"hutch: {found.total:,} matches in total; --limit {limit} omitted the rest", err=True
                )
        return 0 if found.total else 1

    return asyncio.run(work())


@app.command()
def search(
    id: Id,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words of a question, or a symbol's name.")],
    path: SearchPath = "",
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=50, help="Files at most.")] = 10,
    as_json: Json = False,
) -> int:
    """Find code by words or a symbol. Exit code 1 when nothing is found."""
    check_output()

    async def work() -> int:
        loaded = load()
        async with opened(id, loaded) as workspace:
            found = await search_code(workspace, CodeQuery(text=query, below=path.strip("/"), limit=limit))
        matches = found.matches
        if as_json:
            data = {"matches": [asdict(match) for match in matches], "missing": found.state.missing}
            typer.echo(cleaned(json.dumps(data), loaded))
            return 0 if matches else 1
        for match in matches:
            around = f" {match.kind} {match.symbol}" if match.symbol else ""
            head = f"{match.path}:{match.first_line}-{match.last_line}{around} ({match.why})"
            typer.echo(printable(cleaned(head, loaded)))
            for number, text in match.lines:
                typer.echo(f"{number:>6}: {printable(cleaned(text, loaded)[:MAX_LINE_CHARS])}")
        if found.state.missing:
            typer.echo(f"hutch: {found.state.missing:,} files are not indexed yet; search again", err=True)
        return 0 if matches else 1

    return asyncio.run(work())


def _patch_text(patch: str) -> str:
    """Read a patch without translating its line endings."""
    data = sys.stdin.buffer.read() if patch == "-" else Path(patch).read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"The patch is not UTF-8: byte {error.start} is invalid.") from None


def _edit(
    path: str | None,
    old: str | None,
    new: str | None,
    replace_all: bool,
    lines: str | None,
    insert: int | None,
) -> dict[str, Any]:
    if path is None or new is None or sum(each is not None for each in (old, lines, insert)) != 1:
        raise BadRequest("Use PATH and --new with one of --old, --lines and --insert, or --patch FILE.")
    if old is not None:
        return {"old": old, "new": new, "replace_all": replace_all}
    if insert is not None:
        return {"insert_line": insert, "new": new}
    first, last = _range(lines)
    return {"start_line": first, "end_line": last, "new": new}


def _range(lines: str | None) -> tuple[int | None, int | None]:
    if lines is None:
        return None, None
    first, colon, last = lines.partition(":")
    try:
        start = int(first) if first else 1
        return start, (int(last) if last else None) if colon else start
    except ValueError:
        raise BadRequest(f"--lines is {lines!r}. Write 3, 3:7, 3: or :7.") from None
