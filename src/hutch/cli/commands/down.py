"""`hutch down`: end the server of this installation in good order."""

import os
import select
import signal
from typing import Annotated

import typer

from hutch import settings
from hutch.cli import exit_codes
from hutch.domain.errors import Denied, Unavailable
from hutch.system.process import start_stamp
from hutch.system.running_server import RunningServer, find_server

MORE_S = 5  # than the server gives itself


def down_command(
    force: Annotated[
        bool, typer.Option("--force", help="Kill it if it has not ended when its time is over.")
    ] = False,
) -> int:
    """End the server: clients are told, runs are put down where they are, jails are closed.

    Sessions go on where they were when it is started again.
    """
    loaded = settings.load()
    running = find_server(loaded.paths.server_files)
    if running is None:
        typer.echo("No server runs.", err=True)
        return exit_codes.OK
    patience_s = loaded.settings.server.shutdown_s + MORE_S
    handle = _handle(running)
    if handle is None:
        typer.echo("The server has ended.")
        return exit_codes.OK
    try:
        _send(handle, running, signal.SIGTERM)
        if not _ends(handle, patience_s):
            if not force:
                raise Unavailable(
                    f"The server (process {running.pid}) did not end within {patience_s} s. Look at its log "
                    "(hutch logs), or kill it: hutch down --force"
                )
            _send(handle, running, signal.SIGKILL)
            _ends(handle, patience_s)
            typer.echo(f"The server (process {running.pid}) was killed.")
            return exit_codes.OK
    finally:
        os.close(handle)
    typer.echo("The server has ended.")
    return exit_codes.OK


def _handle(running: RunningServer) -> int | None:
    """A handle of this very process: its number may be another's by the time it is used."""
    try:
        handle = os.pidfd_open(running.pid)
    except ProcessLookupError:
        return None
    if start_stamp(running.pid) == running.born:
        return handle
    os.close(handle)
    return None


def _send(handle: int, running: RunningServer, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return  # it has ended by itself
    except PermissionError:
        raise Denied(f"The server (process {running.pid}) was started by another user.") from None


def _ends(handle: int, patience_s: float) -> bool:
    readable, _, _ = select.select([handle], [], [], patience_s)
    return bool(readable)
