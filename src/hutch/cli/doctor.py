"""`hutch doctor`: can this machine run Hutch, and if not, what would mend it?

Every check answers by itself, also when all the others fail: this is the command
for the day on which nothing works.
"""

import json
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from hutch.cli import exits
from hutch.cli.console import Terminal
from hutch.domain.errors import HutchError
from hutch.jail.probe import Check, Status, dotted, jail_checks, version_of
from hutch.settings import find_paths, load

GIB, MIB = 1024**3, 1024**2
LOW_BYTES, FULL_BYTES = 2 * GIB, 200 * MIB
OLDEST_PYTHON = (3, 11)
OLDEST_GIT = (2, 34)
YEAR_2025_S = datetime(2025, 1, 1, tzinfo=UTC).timestamp()
QUICK_CHECK_S = 1.0

MARKS: dict[Status, tuple[str, str, str]] = {  # as a sign, in ASCII, in colour
    "ok": ("✓", "ok", "green"),
    "warn": ("!", "!!", "yellow"),
    "fail": ("✗", "XX", "red"),
}


def doctor_command(json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> int:
    """Check that this machine can run Hutch, and say how to mend what is missing.

    Exits with 3 when a check fails. Warnings are about things that Hutch can do without.
    """
    checks = examine()
    healthy = all(check.status != "fail" for check in checks)
    if json_:
        typer.echo(json.dumps({"ok": healthy, "checks": [asdict(check) for check in checks]}))
    else:
        _show(checks, Terminal())
    return exits.OK if healthy else exits.NO


def examine() -> list[Check]:
    """Run every check; those that wait for another program, side by side."""
    groups: list[Callable[[], list[Check]]] = [
        lambda: [python(), settings()],
        jail_checks,
        lambda: [git()],
        lambda: [ripgrep()],
        lambda: [gh()],
        _data,
    ]
    with ThreadPoolExecutor(len(groups)) as threads:
        checks = [check for group in threads.map(lambda ask: ask(), groups) for check in group]
    if os.geteuid() == 0:
        return [replace(check, fix=check.fix.replace("sudo ", "")) for check in checks]
    return checks


def python() -> Check:
    version = sys.version_info[:3]
    found = f"{dotted(version)} at {sys.executable}"
    if version < OLDEST_PYTHON:
        return Check("python", "fail", f"{found}, older than {dotted(OLDEST_PYTHON)}", _install("python3"))
    return Check("python", "ok", found)


def settings() -> Check:
    """Whether the settings in effect can be read."""
    try:
        loaded = load()
    except HutchError as error:
        return Check(
            "settings", "fail", str(error), "Change what is named above, then look again: hutch config show"
        )
    changed = sum(origin != "default" for origin in loaded.origins.values())
    return Check("settings", "ok", f"{changed} set, {len(loaded.origins) - changed} at their defaults")


def git() -> Check:
    """Snapshots and commits are made by git."""
    check = _program("git", "fail", "without it there are no snapshots and no commits", _install("git"))
    version = version_of(["git", "--version"])
    if version is not None and version < OLDEST_GIT:
        return replace(check, status="fail", found=f"{check.found}, older than {dotted(OLDEST_GIT)}")
    return check


def ripgrep() -> Check:
    """The agent's search is ripgrep."""
    return _program("rg", "fail", "without it the agent cannot search", _install("ripgrep"))


def gh() -> Check:
    """Pull requests on GitHub are opened by gh."""
    return _program("gh", "warn", "needed for pull requests on GitHub, and for nothing else", _install("gh"))


def disk(data: Path) -> Check:
    """Whether the data directory can be written, and for how long."""
    place = next(path for path in (data, *data.parents) if path.exists())
    elsewhere = f"Free some space under {place}, or set HUTCH_HOME to a directory on another disk."
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"hutch")
    except OSError as error:
        mend = f"sudo chown -R $(id -un) {place}  # or set HUTCH_HOME to a directory that you can write"
        return Check("disk", "fail", f"{place} cannot be written: {error.strerror}", mend)
    free = shutil.disk_usage(place).free
    found = f"{_size(free)} free at {data}"
    if free < FULL_BYTES:
        return Check("disk", "fail", f"{found}, less than {_size(FULL_BYTES)}", elsewhere)
    if free < LOW_BYTES:
        return Check("disk", "warn", f"{found}, less than {_size(LOW_BYTES)}", elsewhere)
    return Check("disk", "ok", found)


def database(file: Path) -> Check:
    """Whether the database is sound; reads only, and for a second at most."""
    if not file.exists():
        return Check("database", "ok", f"none yet; it will be at {file}")
    mend = f"Stop Hutch, then restore {file} from a backup."
    try:
        with closing(_read_only(file)) as connection:
            schema = _one(connection, "SELECT version_num FROM alembic_version") or "none"
            found = f"{_size(file.stat().st_size)} at {file}, schema {schema}"
            try:
                verdict = _one(connection, "PRAGMA quick_check(1)")
            except sqlite3.OperationalError as error:
                if "interrupted" not in str(error):
                    raise
                return Check("database", "ok", f"{found}, nothing wrong found in {QUICK_CHECK_S:g} s")
    except (sqlite3.Error, OSError) as error:
        return Check("database", "fail", f"{file} cannot be read: {error}", mend)
    if verdict != "ok":
        return Check("database", "fail", f"{file} is damaged: {verdict}", mend)
    return Check("database", "ok", found)


def newest_event_ms(file: Path) -> int | None:
    """When the newest event was written; None when there is none, or no telling."""
    try:
        with closing(_read_only(file)) as connection:
            newest = _one(connection, "SELECT max(at_ms) FROM logs")
    except sqlite3.Error:
        return None
    return newest if isinstance(newest, int) else None


def clock(now_s: float, newest_ms: int | None) -> Check:
    """Whether the clock can be right; events carry its time."""
    now = f"{datetime.fromtimestamp(now_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
    mend = "sudo timedatectl set-ntp true"
    if now_s < YEAR_2025_S:
        return Check("clock", "fail", f"it says {now}, which cannot be", mend)
    if newest_ms is not None and now_s * 1000 < newest_ms:
        newest = f"{datetime.fromtimestamp(newest_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
        return Check("clock", "fail", f"it says {now}, but an event was written at {newest}", mend)
    return Check("clock", "ok", now)


def _data() -> list[Check]:
    """Everything about the data directory; it has a place even when the settings are wrong."""
    try:
        paths = find_paths()
    except HutchError as error:
        return [
            Check("disk", "fail", str(error), "export HUTCH_HOME=/var/lib/hutch"),
            clock(time.time(), None),
        ]
    newest_ms = newest_event_ms(paths.database)
    return [disk(paths.data), database(paths.database), clock(time.time(), newest_ms)]


def _program(name: str, absent: Status, why: str, fix: str) -> Check:
    path = shutil.which(name)
    if path is None:
        return Check(name, absent, f"not on PATH; {why}", fix)
    version = version_of([path, "--version"])
    if version is None:
        return Check(name, absent, f"{path} does not tell its version; {why}", f"{fix} --reinstall")
    return Check(name, "ok", f"{dotted(version)} at {path}")


def _read_only(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=QUICK_CHECK_S)
    deadline = time.monotonic() + QUICK_CHECK_S
    connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
    return connection


def _one(connection: sqlite3.Connection, query: str) -> object:
    row = connection.execute(query).fetchone()
    return row[0] if row else None


def _install(package: str) -> str:
    return f"sudo apt-get install -y {package}"


def _size(count: int) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / MIB:.1f} MiB"


def _show(checks: Sequence[Check], terminal: Terminal) -> None:
    width = max(len(check.name) for check in checks)
    for check in checks:
        sign, ascii_sign, colour = MARKS[check.status]
        mark = sign if terminal.speaks_unicode else ascii_sign
        indent = " " * (len(mark) + width + 3)
        found = escape(check.found).replace("\n", f"\n{indent}")
        terminal.print(f"[{colour}]{mark}[/] {check.name:<{width}}  {found}")
        if check.status != "ok":
            for line in check.fix.splitlines():
                terminal.print(f"{indent}[dim]fix:[/] {escape(line)}")
    failed = sum(check.status == "fail" for check in checks)
    warned = sum(check.status == "warn" for check in checks)
    verdict = "Hutch can run here." if not failed else "Hutch cannot run here yet."
    counts = f"{len(checks)} checks, {failed} failed, {warned} {'warning' if warned == 1 else 'warnings'}."
    terminal.print(f"\n{verdict} {counts}")
