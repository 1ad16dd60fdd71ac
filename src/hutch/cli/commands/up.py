"""`hutch up`: start the server in the foreground or the background."""

import asyncio
import atexit
import html
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from hutch import settings
from hutch.app import configure_logs
from hutch.app.database import database_of
from hutch.cli import exit_codes
from hutch.domain.errors import Conflict, LimitReached, Unavailable
from hutch.store.open_database import replace_lost_database
from hutch.system.atomic_file import write_private
from hutch.system.fast_imports import without_gc
from hutch.system.queued_standard_output import drain_output, queue_output
from hutch.system.server_announcement_and_discovery import find_server
from hutch.system.signals_that_stay_ignored import is_handled

START_TIMEOUT_S = 60
LOG_TAIL_LINES = 20
OPENERS = ("xdg-open", "open")


class OutputOptions(NamedTuple):
    as_json: bool
    open: bool


def up_command(
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="The address to listen on; 127.0.0.1 unless set.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port; 0 picks a free one. 8484 unless set.")
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Run in the background.")] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open the login page in a browser.")] = False,
    new: Annotated[
        bool, typer.Option("--new", help="Start with a new database after the old one was lost.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON when the server is ready.")
    ] = False,
) -> int:
    """Start the server and print its address.

    The first start makes you its owner and prints a login link. Ctrl-C stops a server in the foreground;
    `hutch down` stops any server. `nohup hutch up` keeps running when its terminal is closed.
    """
    loaded = settings.load({"server": {"host": host, "port": port}})
    if running := find_server(loaded.paths.server_files):
        raise Conflict(
            f"A server is already running: {running.url} (process {running.pid}). Stop it with: hutch down"
        )
    if new:
        replace_lost_database(database_of(loaded))
    output = OutputOptions(as_json, open_)
    return _in_background(loaded, output) if detach else _in_foreground(loaded, output)


def _in_foreground(loaded: settings.LoadedSettings, output: OutputOptions) -> int:
    queue_output()
    atexit.register(drain_output)
    configure_logs(loaded, file=loaded.paths.server_log)
    ended_by = "Ctrl-C" if is_handled(signal.SIGINT) else "hutch down"
    _serve(loaded, lambda ready: _announce(ready, loaded, output, ended_by=ended_by))
    return exit_codes.OK


def _in_background(loaded: settings.LoadedSettings, output: OutputOptions) -> int:
    """Start the server in a process that outlives this one and its terminal."""
    error_file = loaded.paths.server_log.with_suffix(".err")
    write_private(error_file, "")
    sys.stdout.flush()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _run_child(loaded, error_file, writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        line = _read_announcement(pipe.fileno())
    said = json.loads(line) if line else {}
    if "url" not in said:
        text = said.get("error") or _start_failure(pid, line, error_file, loaded.paths.server_log)
        is_limit = said.get("exit_code") == exit_codes.LIMIT_REACHED
        raise LimitReached(text, limit="disk") if is_limit else Unavailable(text)
    _announce(said, loaded, output, ended_by="hutch down")
    return exit_codes.OK


def _run_child(loaded: settings.LoadedSettings, error_file: Path, pipe: int) -> None:
    """Run the server in the forked child; does not return."""
    code = exit_codes.BUG
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        errors = os.open(error_file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        for old, new in ((nothing, 0), (nothing, 1), (errors, 2)):
            os.dup2(old, new)
        configure_logs(loaded, file=loaded.paths.server_log, file_only=True)

        def announce(ready: dict[str, Any]) -> None:
            os.write(pipe, json.dumps(ready).encode() + b"\n")
            os.close(pipe)

        _serve(loaded, announce)
        code = exit_codes.OK
    except Exception as error:  # noqa: BLE001 - there is no caller to handle it
        code = exit_codes.code_of(error)
        failure = {"error": str(error) if code != exit_codes.BUG else "", "exit_code": code}
        with suppress(OSError):  # the starting process has ended, or the server had been ready
            os.write(pipe, json.dumps(failure).encode() + b"\n")
        with suppress(OSError):  # the disk may be full
            if code == exit_codes.BUG:
                sys.excepthook(type(error), error, error.__traceback__)
            else:
                sys.stderr.write(f"{error}\n")
            sys.stderr.flush()
    finally:
        os._exit(code)


def _serve(loaded: settings.LoadedSettings, announce: Callable[[dict[str, Any]], None]) -> None:
    with without_gc():
        from hutch.app.server import open_server
        from hutch.gateway.server_lifecycle import Ready, serve

    def on_ready(ready: Ready) -> None:
        announce(
            {
                "url": ready.url,
                "pid": ready.running.pid,
                "owner": ready.owner,
                "link": ready.link,
                "warning": ready.warning,
                "log": str(loaded.paths.server_log),
            }
        )

    asyncio.run(serve(loaded, open_server, on_ready))


def _read_announcement(pipe: int) -> bytes | None:
    """The line that the server writes when it is ready or fails; empty when it ends without, None when it
    takes too long."""
    line, until = b"", time.monotonic() + START_TIMEOUT_S
    while not line.endswith(b"\n"):
        readable, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
        if not readable:
            return None
        if not (chunk := os.read(pipe, 65536)):
            return b""
        line += chunk
    return line


def _start_failure(pid: int, line: bytes | None, error_file: Path, log: Path) -> str:
    if line is not None:
        os.waitpid(pid, 0)  # its traceback is complete then
    text = error_file.read_text(errors="replace").strip()
    if text:
        return text.removeprefix("hutch: ")
    late = f"is not ready after {START_TIMEOUT_S} s (process {pid})"
    happened = late if line is None else "ended immediately"
    if log.exists():
        text = log.read_text(errors="replace").strip()
    lines = "\n".join(text.splitlines()[-LOG_TAIL_LINES:])
    return f"The server {happened}. Its last output:\n{lines or '(none)'}"


def _announce(
    ready: dict[str, Any], loaded: settings.LoadedSettings, output: OutputOptions, *, ended_by: str
) -> None:
    opened = output.open and _open(ready["link"] or ready["url"], loaded)
    if output.as_json:
        typer.echo(json.dumps({**ready, "opened": opened}))
        sys.stdout.flush()
        return
    if ready["warning"]:
        typer.secho(f"\nWARNING: {ready['warning']}\n", fg="red", bold=True, err=True)
    typer.echo(f"Hutch is running at {ready['url']}  ({ended_by} stops it)")
    if ready["link"]:
        typer.echo(f"This is the first server on {loaded.paths.data}; no user has logged in yet.")
        typer.echo(f"You are its owner, {ready['owner']}. Log in with this one-time link within 15 minutes:")
        typer.echo(f"    {ready['link']}")
        typer.echo("For another link: hutch users link")
    if output.open and not opened:
        typer.echo("No browser could be started here. Open the address above in one.", err=True)
    sys.stdout.flush()


def _open(link: str, loaded: settings.LoadedSettings) -> bool:
    """Open a link in the user's browser, through a file: every local user can read arguments."""
    opener = next((found for name in OPENERS if (found := shutil.which(name))), None)
    if opener is None:
        return False
    page = loaded.paths.state / "open.html"
    write_private(page, f'<meta http-equiv="refresh" content="0; url={html.escape(link)}">\n')
    done = subprocess.Popen(
        [opener, str(page)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return done.wait(timeout=2) == 0
    except subprocess.TimeoutExpired:
        return True  # the opener is the browser itself and keeps running
