"""`hutch migrate`: move an installation to a database in PostgreSQL, or back to SQLite."""

import json
import os
import sys
import time
from typing import Annotated

import typer

from hutch import settings
from hutch.app.database import postgresql_at
from hutch.cli import exit_codes
from hutch.domain.errors import BadRequest, Conflict
from hutch.domain.postgresql_url import check_postgresql_url
from hutch.settings import LoadedSettings
from hutch.store.process_lock import hold_process_lock
from hutch.system.lazy_dataclass import dataclass
from hutch.system.server_announcement_and_discovery import find_server

SQLITE = "sqlite"
PROGRESS_INTERVAL_S = 0.2
CLEAR = "\r\x1b[K"


def migrate_command(
    to: Annotated[
        str, typer.Option("--to", metavar="URL", help="A database in PostgreSQL without rows, or: sqlite")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> int:
    """Move the rows of this installation to another database, and verify every log there.

    No server may run. Interrupted, it continues when it is called again. Blobs, keys and workspaces stay in
    the data directory. Then set database.url, or unset it after a move to sqlite.
    """
    loaded = settings.load()
    if running := find_server(loaded.paths.server_files):
        raise Conflict(
            f"A server is running: {running.url} (process {running.pid}). Stop it first: hutch down"
        )
    with hold_process_lock(loaded.paths.server_lock, holder="Hutch server"):
        _migrate(loaded, to, as_json=as_json)
    return exit_codes.OK


def _migrate(loaded: LoadedSettings, to: str, *, as_json: bool) -> None:
    from hutch.store.database_migration import MigrationProgress, migrate_to_postgresql, migrate_to_sqlite

    line = _ProgressLine(is_shown=os.isatty(2) and not as_json)

    def on_progress(progress: MigrationProgress) -> None:
        line.show(progress.step, progress.done, progress.total)

    paths, url = loaded.paths, loaded.settings.database.url
    try:
        if to == SQLITE:
            if url is None:
                raise BadRequest("database.url is not set, so this installation uses SQLite already.")
            migrated = migrate_to_sqlite(postgresql_at(loaded, url), paths.database, paths.blobs, on_progress)
        else:
            target = postgresql_at(loaded, check_postgresql_url(to))
            migrated = migrate_to_postgresql(paths.database, target, paths.blobs, on_progress)
    finally:
        line.clear()
    if as_json:
        found = {"tables": migrated.tables, "rows": migrated.rows, "logs": migrated.logs.logs}
        typer.echo(json.dumps({"to": to, **found, "damaged_before": migrated.damaged_before}))
        return
    verified = migrated.logs.logs - len(migrated.damaged_before)
    typer.echo(
        f"Moved {migrated.rows:,} rows of {migrated.tables} tables to {to}. All are equal there; "
        f"{verified:,} logs with {migrated.logs.events:,} events verify."
    )
    for session in migrated.damaged_before:
        typer.echo(f"warning: the log of {session} did not verify before either", err=True)
    if to == SQLITE:
        typer.echo(f"Now unset database.url in {paths.config_file}.")
    else:
        typer.echo(f'Now set it in {paths.config_file}:\n\n[database]\nurl = "{to}"\n')
        typer.echo(f"The rows from before are in {paths.database}.moved. Delete it when all is well.")


@dataclass(slots=True)
class _ProgressLine:
    """The progress, on one line of a terminal."""

    is_shown: bool
    next_s: float = 0.0

    def show(self, step: str, done: int, total: int) -> None:
        now = time.monotonic()
        if self.is_shown and now >= self.next_s:
            self.next_s = now + PROGRESS_INTERVAL_S
            sys.stderr.write(f"{CLEAR}{step}: {done:,} of {total:,}")
            sys.stderr.flush()

    def clear(self) -> None:
        if self.is_shown:
            sys.stderr.write(CLEAR)
            sys.stderr.flush()
