"""`hutch export`: write a record, JSON Lines, or the recording of a terminal, from the log of a session."""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated, Literal, NamedTuple, get_args
from urllib.parse import quote

import typer

from hutch import settings
from hutch.app import configure_logs
from hutch.cli import exit_codes
from hutch.cli.local_session_lookup import find_session, open_sessions, warn_of_defects
from hutch.cli.signals_and_closed_output import ended_by
from hutch.domain.errors import BadRequest, Conflict, NotFound, Unavailable
from hutch.domain.ids import SessionId
from hutch.domain.log_entry_audience import WHOLE
from hutch.flows.json_lines_log_export import json_lines
from hutch.store.event_log import SqlLog
from hutch.store.record_export import export_record
from hutch.store.terminal_recording_export import export_terminal, find_terminal
from hutch.system.signals_that_stay_ignored import TERMINATION_SIGNALS

Format = Literal["zip", "jsonl", "asciicast"]
STDOUT = Path("-")
SERVED = {"zip": "record", "jsonl": "events.jsonl"}  # the resources of a session


class Target(NamedTuple):
    """The format and the destination of an export."""

    format: Format
    output: Path | None
    force: bool
    as_json: bool
    terminal: str = ""

    def path(self, session_id: str) -> Path:
        if self.format == "asciicast":
            return self.output or Path(f"{session_id}-terminal-{self.terminal}.cast")
        return self.output or (STDOUT if self.format == "jsonl" else Path(f"{session_id}.zip"))


def export_command(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="A session id, or 'last'.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where to write; by default SESSION.zip, or standard output.",
        ),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="zip|jsonl|asciicast",
            help="A record that can be verified, one event per line, or a terminal. [default: zip]",
        ),
    ] = "",
    terminal: Annotated[
        str, typer.Option(metavar="ID", help="Write the recording of this terminal, as asciicast version 3.")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    server: Annotated[
        bool, typer.Option("--server", help="A session of the server in use, as you may see it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Write the log of a session to a file: a record that anyone can verify offline, or JSON Lines.

    When parts of the log are missing, the remaining ones are written and the exit code is 3.

    With --terminal, write a terminal's recording to SESSION-terminal-ID.cast; `asciinema play` shows it.
    """
    target = Target(_format(format, terminal), output, force, as_json, terminal)
    if target.format == "zip" and output == STDOUT:
        raise BadRequest("A record is a zip file and is not printed. Name a file: -o record.zip")
    if as_json and target.path(session) == STDOUT:
        raise BadRequest("--json describes the written file. Name one: -o log.jsonl")
    if force and output is not None and output != STDOUT and not output.is_dir():
        _check_replaceable(output)
    return asyncio.run(_run(session, target, server))


def _check_replaceable(path: Path) -> None:
    """Refuse to replace a device, a pipe or a link by a file."""
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        raise BadRequest(f"{path} is not a regular file, and is not replaced. Choose another path.")


def _format(format: str, terminal: str) -> Format:
    chosen = format or ("asciicast" if terminal else "zip")
    for known in get_args(Format):
        if known == chosen and terminal and known != "asciicast":
            raise BadRequest(f"A terminal is not exported as {known}. Omit --format, or --terminal.")
        if known == chosen == "asciicast" and not terminal:
            raise BadRequest("An asciicast is the recording of one terminal. Name it: --terminal 1")
        if known == chosen:
            return known  # type: ignore[no-any-return]
    raise BadRequest(f"{format[:40]!r} is not a format. There are: {', '.join(get_args(Format))}.")


async def _run(session: str, target: Target, server: bool) -> int:
    with ended_by(*TERMINATION_SIGNALS) as ended:  # so that no unfinished file remains
        try:
            return await (_from_server(session, target) if server else _from_local_data(session, target))
        except asyncio.CancelledError:
            if not ended:
                raise
    return 128 + ended[0]


async def _from_local_data(session: str, target: Target) -> int:
    loaded = settings.load()
    configure_logs(loaded)
    async with open_sessions(loaded) as log:
        session_id = await find_session(log, session)
        path = target.path(session_id)
        if target.format == "asciicast":
            opened = await find_terminal(log, log, session_id, target.terminal, WHOLE)
            recording = export_terminal(log, session_id, target.terminal, WHOLE, opened=opened)
            await _write(path, recording, force=target.force)
            return _describe(session_id, path, target)
        if target.format == "zip":
            evidence = await export_record(log, session_id, path, WHOLE, overwrite=target.force, damaged=True)
            head, defects = evidence.head, list(evidence.defects)
        else:
            head, defects = await log.head(session_id), await log.defects(session_id)
            await _write(path, _events(log, session_id), force=target.force)
    if target.as_json:
        result = {"file": str(path), "session": session_id, "events": head.seq, "hash": head.hash}
        typer.echo(json.dumps({**result, "defects": defects} if defects else result))
    if defects:
        warn_of_defects(session_id, defects)
        what = " The record does not verify." if target.format == "zip" else ""
        if path != STDOUT:
            typer.echo(f"The remaining events were written to {path}.{what}", err=True)
        return exit_codes.NO
    if not target.as_json and path != STDOUT:
        verify = f" Anyone can verify it: hutch verify {path}" if target.format == "zip" else ""
        typer.echo(f"{_count(head.seq, 'event')} written to {path}.{verify}", err=True)
    return exit_codes.OK


async def _from_server(session: str, target: Target) -> int:
    from hutch.cli.remote_session_log import open_served_log

    resource = SERVED.get(target.format) or f"terminals/{quote(target.terminal, safe='')}/cast"
    async with open_served_log(session, resource) as (session_id, chunks):
        path = target.path(session_id)
        await _write(path, chunks, force=target.force)
    return _describe(session_id, path, target)


def _describe(session_id: str, path: Path, target: Target) -> int:
    """Name the written file and its content."""
    if target.as_json:
        result = {"file": str(path), "session": session_id}
        typer.echo(json.dumps({**result, "terminal": target.terminal} if target.terminal else result))
    elif path != STDOUT and target.terminal:
        typer.echo(f"Terminal {target.terminal} written to {path}. Watch it: asciinema play {path}", err=True)
    elif path != STDOUT:
        typer.echo(f"The log of {session_id} was written to {path}.", err=True)
    return exit_codes.OK


def _events(log: SqlLog, session_id: SessionId) -> AsyncIterator[bytes]:
    return json_lines(log, session_id, WHOLE, damaged=True)


async def _write(path: Path, chunks: AsyncIterator[bytes], *, force: bool) -> None:
    """Write the chunks to standard output, or to a file that appears only when it is complete."""
    if path == STDOUT:
        async for chunk in chunks:
            await asyncio.to_thread(_print, chunk)
        return
    with _new_file(path, force=force) as file:
        async for chunk in chunks:
            await asyncio.to_thread(file.write, chunk)


def _print(chunk: bytes) -> None:
    sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


@contextmanager
def _new_file(path: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """A file for its owner only that gets its name at the end of the block; an error leaves none."""
    if path.is_dir():
        raise BadRequest(f"{path} is a directory. Give the path of a file in it.")
    if not force and (path.exists() or path.is_symlink()):
        raise _exists(path)
    try:
        descriptor, draft = tempfile.mkstemp(prefix=".hutch-export-", dir=path.parent)
    except FileNotFoundError:
        raise NotFound(f"The folder {path.parent} does not exist. Create it first.") from None
    except OSError as error:
        raise Unavailable(f"{path} could not be written ({error.strerror}). Choose another path.") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if force:
            Path(draft).replace(path)
        else:
            _name(path, Path(draft))
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise Unavailable(
            f"{path} could not be written ({error.strerror}). Choose another path or free some space."
        ) from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)  # noqa: PTH108


def _name(path: Path, draft: Path) -> None:
    try:
        path.hardlink_to(draft)  # unlike a rename, this never replaces a file
    except FileExistsError:
        raise
    except OSError:  # the file system has no hard links
        draft.replace(path)


def _exists(path: Path) -> Conflict:
    return Conflict(f"{path} exists. Choose another name, or add --force to replace it.")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
