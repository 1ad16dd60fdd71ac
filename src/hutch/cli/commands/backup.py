"""`hutch backup` and `hutch restore`: an installation in one file, and back."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from hutch import settings
from hutch.cli import exit_codes
from hutch.cli.backup_progress import ProgressLine
from hutch.cli.new_output_file import new_output_file
from hutch.cli.render.byte_size import byte_size
from hutch.cli.signals_and_closed_output import ended_by
from hutch.domain.errors import BadRequest, Conflict, HutchError
from hutch.flows.backups.backup_writer import Installation, OnProgress, Written, write_backup
from hutch.flows.backups.restoration import Checked, restore_backup, verify_backup
from hutch.settings.installation_paths import Paths
from hutch.store.stored_logs_check import LogsReport
from hutch.system.server_announcement_and_discovery import find_server
from hutch.system.signals_that_stay_ignored import TERMINATION_SIGNALS
from hutch.system.terminal_safe_text import visible
from hutch.workspace.lifecycle.workspace_filling import finish_or_stop

STDOUT = Path("-")
COMPRESSED = (".gz", ".tgz")
MAX_NAMED = 10
WITH_KEYS = (
    "It contains the vault and keys/vault.keys: anyone who can read this file can read all API keys, and "
    "sign in this installation's name. Protect it like a password, or use --no-keys and store the keys apart."
)
WITHOUT_KEYS = (
    "The keys are not in it. Store a copy of {keys} apart: without vault.keys the vault cannot be read, and "
    "without signing.pem new signatures have another key."
)

Result = TypeVar("Result")
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


class _CreateUnlessNamed(TyperGroup):
    """`hutch backup FILE` is `hutch backup create FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["create", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_CreateUnlessNamed,
    help="Write a backup of this installation to one file: hutch backup FILE",
    no_args_is_help=True,
    add_completion=False,
)


@app.command()
def create(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file, or - for standard output.")],
    gzip: Annotated[
        bool | None,
        typer.Option("--gzip/--no-gzip", help="Compress it. [default: if the name ends with .gz or .tgz]"),
    ] = None,
    keys: Annotated[
        bool, typer.Option("--keys/--no-keys", help="Include the keys, and the login to another server.")
    ] = True,
    as_json: Json = False,
) -> int:
    """Write the installation to one file; a server may run.

    It has the database, blobs, workspaces, snapshots, settings and keys, as they are at one moment. It
    appears when it is complete, and never replaces another file.
    """
    paths = settings.find_paths()
    _check_database()
    if file == STDOUT and (as_json or os.isatty(1)):
        raise BadRequest("A backup on standard output goes into a pipe or a file, without --json.")
    if file != STDOUT and file.absolute().resolve().is_relative_to(paths.data.resolve()):
        raise BadRequest(f"{file} is in the data directory, which is backed up. Choose another place.")
    compress = file.suffix in COMPRESSED if gzip is None else gzip
    began = time.monotonic()

    def work(on_progress: OnProgress) -> Written:
        with ExitStack() as stack:
            output = sys.stdout.buffer if file == STDOUT else stack.enter_context(new_output_file(file))
            return write_backup(
                _installation(paths), output, gzip=compress, keys=keys, on_progress=on_progress
            )

    written, ended = _run(work, quiet=as_json)
    if written is None:
        return ended
    _describe_written(written, file, paths, time.monotonic() - began, as_json=as_json)
    return exit_codes.OK


def _check_database() -> None:
    """Refuse an installation whose rows are not in its data directory."""
    try:
        url = settings.load().settings.database.url
    except HutchError:  # a backup can be made while the settings are wrong
        return
    if url is not None:
        raise BadRequest(
            f"The rows of this installation are in {url}, which a backup does not reach. Back it up with "
            "pg_dump, and the data directory beside it, or move to SQLite first: hutch migrate --to sqlite"
        )


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that hutch backup wrote.")],
    as_json: Json = False,
) -> int:
    """Check every hash and every log of a backup.

    Nothing is restored. Each log is checked as by `hutch verify`: the chain and all signatures.
    """
    checked, ended = _run(lambda on_progress: verify_backup(file, on_progress), quiet=as_json)
    if checked is None:
        return ended
    if as_json:
        typer.echo(json.dumps({"file": str(file), **_json(checked)}))
    else:
        typer.echo(f"ok: a backup of {_moment(checked)}, with Hutch {checked.about.hutch}")
        _show(checked)
    return exit_codes.NO if checked.logs.problems else exit_codes.OK


def restore_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that hutch backup wrote.")],
    into: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Restore to this directory; use it as HUTCH_HOME afterwards."),
    ] = None,
    move_aside: Annotated[
        bool, typer.Option("--move-aside", help="Give the present data and settings another name first.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Restore a backup into an empty place, and verify every log. No server may run there.

    Nothing appears before everything is checked. An older database is migrated; a newer one is refused.
    """
    paths = settings.find_paths({"HUTCH_HOME": str(into)}) if into is not None else settings.find_paths()
    if running := find_server(paths.server_files):
        raise Conflict(f"A server is running: {running.url} (process {running.pid}). Stop it: hutch down")
    began = time.monotonic()
    restored, ended = _run(
        lambda on_progress: restore_backup(
            file, _installation(paths), move_aside=move_aside, on_progress=on_progress
        ),
        quiet=as_json,
    )
    if restored is None:
        return ended
    checked = restored.backup
    code = exit_codes.NO if checked.logs.problems else exit_codes.OK
    if as_json:
        moved = [str(path) for path in restored.moved]
        typer.echo(json.dumps({"data": str(paths.data), "moved": moved, **_json(checked)}))
        return code
    for path in restored.moved:
        typer.echo(f"What was there before is now in {path}")
    seconds = time.monotonic() - began
    typer.echo(f"Restored to {paths.data} in {seconds:.1f} s: the installation of {_moment(checked)}.")
    _show(checked)
    if not checked.about.keys:
        typer.echo(f"The backup has no keys. Put them into {paths.keys} before you start.", err=True)
    if checked.manifest.unfinished_runs:
        typer.echo(
            f"{_count(checked.manifest.unfinished_runs, 'unfinished run')} will continue at the next start. "
            "Do not start the original again: both would do the same work.",
            err=True,
        )
    typer.echo(f"Start it: {f'HUTCH_HOME={into.absolute()} ' if into is not None else ''}hutch up")
    return code


def _installation(paths: Paths) -> Installation:
    return Installation(data=paths.data, settings=paths.config_file.parent)


def _run(work: Callable[[OnProgress], Result], *, quiet: bool) -> tuple[Result | None, int]:
    """Run work in a thread; returns its result, or None and the exit code when a signal stops it."""

    async def run() -> tuple[Result | None, int]:
        with ended_by(*TERMINATION_SIGNALS) as ended:
            try:
                return await finish_or_stop(lambda check: shown(check)), exit_codes.OK
            except asyncio.CancelledError:
                if not ended:
                    raise
        typer.echo("hutch: stopped. Nothing was left behind.", err=True)
        return None, 128 + ended[0]

    def shown(check: Callable[[], None]) -> Result:
        line = ProgressLine(check, quiet=quiet)
        try:
            return work(line)
        finally:
            line.clear()

    return asyncio.run(run())


def _describe_written(written: Written, file: Path, paths: Paths, seconds: float, *, as_json: bool) -> None:
    about, manifest = written.about, written.manifest
    if as_json:
        result = {"file": str(file), "size": written.size, "seconds": round(seconds, 3)}
        typer.echo(json.dumps({**result, **asdict(about), **asdict(manifest)}))
        return
    typer.echo(
        f"{_count(manifest.logs, 'session')}, {_count(manifest.files, 'file')} "
        f"({byte_size(manifest.content_bytes)}) written to {file}: "
        f"{byte_size(written.size)} in {seconds:.1f} s.",
        err=True,
    )
    if manifest.omitted or manifest.changed:
        typer.echo(
            f"{manifest.omitted} entries were omitted, {manifest.changed} changed while they were read:",
            err=True,
        )
        for path, reason in list(manifest.named.items())[:MAX_NAMED]:
            typer.echo(visible(f"  {path}: {reason}"), err=True)
    typer.echo(WITH_KEYS if about.keys else WITHOUT_KEYS.format(keys=paths.keys), err=True)
    if file != STDOUT:
        typer.echo(f"Check it: hutch backup verify {file}", err=True)


def _show(checked: Checked) -> None:
    manifest, logs = checked.manifest, checked.logs
    size = byte_size(manifest.content_bytes)
    typer.echo(f"  files  {manifest.files:,} ({size}), all with the hashes of the manifest")
    typer.echo(f"  logs   {logs.logs:,} with {logs.events:,} events: {_verdict(logs)}")
    for fingerprint in sorted(logs.keys):
        typer.echo(f"  key    {fingerprint}")
    for session, problem in list(logs.problems.items())[:MAX_NAMED]:
        typer.echo(visible(f"  BAD    {session}: {problem}"), err=True)


def _verdict(logs: LogsReport) -> str:
    good = f"{logs.logs - len(logs.problems):,} of {logs.logs:,} chains and their signatures are right"
    late = (
        f"; {_count(logs.unsigned, 'event')} after the last signature of their log" if logs.unsigned else ""
    )
    return f"{good}{late}"


def _json(checked: Checked) -> dict[str, Any]:
    logs = checked.logs
    return {
        **asdict(checked.about),
        **asdict(checked.manifest),
        "verified": {
            "logs": logs.logs,
            "events": logs.events,
            "erased": logs.erased,
            "unsigned": logs.unsigned,
            "signing_keys": sorted(logs.keys),
            "problems": logs.problems,
        },
    }


def _moment(checked: Checked) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(checked.about.created_ms / 1000))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
