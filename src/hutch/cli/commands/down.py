"""`hutch down`: stop the server of this installation."""

import os
import select
import signal
from typing import Annotated

import typer

from hutch import settings
from hutch.cli import exit_codes
from hutch.domain.errors import Denied, Unavailable
from hutch.system.process_identity import start_stamp
from hutch.system.server_announcement_and_discovery import RunningServer, find_server

EXTRA_TIMEOUT_S = 5  # beyond the server's own shutdown timeout


def down_command(
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Kill the server if it has not stopped 5 seconds after server.shutdown_s."
        ),
    ] = False,
) -> int:
    """Stop the server: notify clients, suspend runs and close jails.

    Sessions continue where they were when the server is started again.
    """
    loaded = settings.load()
    running = find_server(loaded.paths.server_files)
    if running is None:
        typer.echo("No server is running.", err=True)
        return exit_codes.OK
    timeout_s = loaded.settings.server.shutdown_s + EXTRA_TIMEOUT_S
    handle = _handle(running)
    if handle is None:
        typer.echo("The server has stopped.")
        return exit_codes.OK
    try:
        _send(handle, running, signal.SIGTERM)
        if not _ends(handle, timeout_s):
            if not force:
                raise Unavailable(
                    f"The server (process {running.pid}) did not stop within {timeout_s} s. Check its log "
                    "(hutch logs), or kill it: hutch down --force"
                )
            _send(handle, running, signal.SIGKILL)
            _ends(handle, timeout_s)
            typer.echo(f"The server (process {running.pid}) was killed.")
            return exit_codes.OK
    finally:
        os.close(handle)
    typer.echo("The server has stopped.")
    return exit_codes.OK


def _handle(running: RunningServer) -> int | None:
    """A handle for this process: its id may be reused by the time a signal is sent."""
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
        return  # it ended by itself
    except PermissionError:
        raise Denied(f"The server (process {running.pid}) was started by another user.") from None


def _ends(handle: int, timeout_s: float) -> bool:
    readable, _, _ = select.select([handle], [], [], timeout_s)
    return bool(readable)
