"""`hutch up`: start the server, here or in the background."""

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
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from hutch import app as wiring
from hutch import settings
from hutch.cli import exit_codes
from hutch.domain.errors import Conflict, Unavailable
from hutch.store.database import replace_lost_database
from hutch.system.atomic_file import write_private
from hutch.system.fast_imports import without_gc
from hutch.system.queued_output import drain_output, queue_output
from hutch.system.running_server import find_server
from hutch.system.signals import is_handled

START_S = 60  # a detached server that is not ready by then is given up
LAST_LINES = 20
OPENERS = ("xdg-open", "open")


class OutputOptions(NamedTuple):
    """How it is to be told."""

    as_json: bool
    open: bool


def up_command(
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Listen there; 127.0.0.1 unless set otherwise.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port; 0 takes a free one, 8484 unless set.")
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Run in the background.")] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    new: Annotated[
        bool, typer.Option("--new", help="Begin anew where the database of an installation was lost.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON when it is ready, for programs.")
    ] = False,
) -> int:
    """Start the server, and say where it is.

    The first start makes you its owner, and prints a link by which you log in. Ctrl-C ends a server that
    runs in the foreground, `hutch down` any. `nohup hutch up` goes on when its terminal is closed.
    """
    loaded = settings.load({"server": {"host": host, "port": port}})
    if running := find_server(loaded.paths.server_files):
        raise Conflict(
            f"A server runs already: {running.url} (process {running.pid}). End it with: hutch down"
        )
    if new:
        replace_lost_database(loaded.paths.database)
    output = OutputOptions(as_json, open_)
    return _in_background(loaded, output) if detach else _in_foreground(loaded, output)


def _in_foreground(loaded: settings.LoadedSettings, output: OutputOptions) -> int:
    queue_output()
    atexit.register(drain_output)
    wiring.configure_logs(loaded, file=loaded.paths.server_log)
    ended_by = "Ctrl-C" if is_handled(signal.SIGINT) else "hutch down"
    _serve(loaded, lambda ready: _announce(ready, loaded, output, ended_by=ended_by))
    return exit_codes.OK


def _in_background(loaded: settings.LoadedSettings, output: OutputOptions) -> int:
    """The server in a process of its own, that outlives this one and its terminal."""
    said = loaded.paths.server_log.with_suffix(".err")
    write_private(said, "")
    sys.stdout.flush()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _be_a_server(loaded, said, writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        line = _line(pipe.fileno())
    if not line:
        raise Unavailable(_last_words(pid, said, loaded.paths.server_log))
    _announce(json.loads(line), loaded, output, ended_by="hutch down")
    return exit_codes.OK


def _be_a_server(loaded: settings.LoadedSettings, said: Path, pipe: int) -> None:
    """What the child does; it does not return."""
    code = exit_codes.BUG
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        errors = os.open(said, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        for old, new in ((nothing, 0), (nothing, 1), (errors, 2)):
            os.dup2(old, new)
        wiring.configure_logs(loaded, file=loaded.paths.server_log, file_only=True)

        def announce(ready: dict[str, Any]) -> None:
            os.write(pipe, json.dumps(ready).encode() + b"\n")
            os.close(pipe)

        _serve(loaded, announce)
        code = exit_codes.OK
    except Exception as error:  # noqa: BLE001 - nobody above could answer
        sys.stderr.write(f"{error}\n" if exit_codes.code_of(error) != exit_codes.BUG else "")
        if exit_codes.code_of(error) == exit_codes.BUG:
            sys.excepthook(type(error), error, error.__traceback__)
        code = exit_codes.code_of(error)
    finally:
        sys.stderr.flush()
        os._exit(code)


def _serve(loaded: settings.LoadedSettings, announce: Callable[[dict[str, Any]], None]) -> None:
    with without_gc():
        from hutch.app.server import open_server
        from hutch.gateway.serve import Ready, serve

    def ready(told: Ready) -> None:
        announce(
            {
                "url": told.url,
                "pid": told.running.pid,
                "owner": told.owner,
                "link": told.link,
                "warning": told.warning,
                "log": str(loaded.paths.server_log),
            }
        )

    asyncio.run(serve(loaded, open_server, ready))


def _line(pipe: int) -> bytes:
    """What the server says when it is ready; nothing when it ends instead, or takes too long."""
    got, until = b"", time.monotonic() + START_S
    while not got.endswith(b"\n"):
        readable, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
        piece = os.read(pipe, 65536) if readable else b""
        if not piece:
            return b""
        got += piece
    return got


def _last_words(pid: int, said: Path, log: Path) -> str:
    ended, _ = os.waitpid(pid, os.WNOHANG)
    text = said.read_text(errors="replace").strip()
    if text:
        return text.removeprefix("hutch: ")  # it knows better than we do
    happened = "ended at once" if ended else f"is not ready after {START_S} s (process {pid})"
    if log.exists():
        text = log.read_text(errors="replace").strip()
    lines = "\n".join(text.splitlines()[-LAST_LINES:])
    return f"The server {happened}. It said:\n{lines or '(nothing)'}"


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
    typer.echo(f"Hutch is at {ready['url']}  ({ended_by} ends it)")
    if ready["link"]:
        typer.echo(f"This is the first server on {loaded.paths.data}: nobody has logged in yet.")
        typer.echo(f"You are its owner, {ready['owner']}. Log in by this link, once, within 15 minutes:")
        typer.echo(f"    {ready['link']}")
        typer.echo("Later, or in another browser: hutch users link")
    if output.open and not opened:
        typer.echo("There is no browser to open here: open the address above in one.", err=True)
    sys.stdout.flush()


def _open(link: str, loaded: settings.LoadedSettings) -> bool:
    """Show it in the user's browser. The link goes by a file: arguments can be read by everybody here."""
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
        return True  # it is the browser itself
