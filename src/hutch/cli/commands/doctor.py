"""`hutch doctor`: check that this machine can run Hutch, and say how to fix each problem.

Every check reports on its own, even when all the others fail: this command must work when nothing
else does.
"""

import asyncio
import errno
import json
import os
import shlex
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from hutch.app.allowed_local_repositories import own_directories
from hutch.app.database import database_of
from hutch.app.doctor_check_inputs import check_own_model, installation
from hutch.app.forges import tokens_of
from hutch.app.vault_secrets_and_redactor import secrets
from hutch.cli import exit_codes
from hutch.cli.render.console import Terminal
from hutch.domain.errors import HutchError, NotFound
from hutch.flows.doctor_checks.code_execution_languages import check_languages
from hutch.flows.doctor_checks.github_token import check_github
from hutch.flows.doctor_checks.postgresql_database import check_postgresql
from hutch.flows.doctor_checks.repository_delivery_and_tests import check_repository
from hutch.flows.doctor_checks.secret_sources import check_secrets
from hutch.flows.doctor_checks.toolchains import check_toolchains
from hutch.jail.machine_checks import Check, Status, attempt, attempt_all, dotted, jail_checks, version_of
from hutch.settings import LoadedSettings, find_paths, load
from hutch.store.database_location import PostgresqlDatabase
from hutch.store.doctor_and_completion_queries import (
    DatabaseUnreadable,
    DatabaseUnsound,
    check_integrity,
    newest_event_ms,
)
from hutch.system.terminal_safe_text import visible

GIB, MIB = 1024**3, 1024**2
LOW_BYTES, FULL_BYTES = 2 * GIB, 200 * MIB
MIN_PYTHON = (3, 11)
MIN_GIT = (2, 34)
MIN_GH = (2, 23)
YEAR_2025_S = datetime(2025, 1, 1, tzinfo=UTC).timestamp()
QUICK_CHECK_TIMEOUT_S = 1.0
ELSEWHERE = "Set HUTCH_HOME to a directory of your own: export HUTCH_HOME=~/hutch"
OR_ELSEWHERE = "or: export HUTCH_HOME=~/hutch"

MARKS: dict[Status, tuple[str, str, str]] = {  # Unicode, ASCII, colour
    "ok": ("✓", "ok", "green"),
    "warn": ("!", "!!", "yellow"),
    "fail": ("✗", "XX", "red"),
}


def doctor_command(
    repo: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The repository to check; by default the current directory's."),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Check that this machine can run Hutch, and say how to fix each problem.

    Also checks which model a run would use, whether pull requests can be opened, and whether a repository's
    tests can run in a jail. No code of the repository runs outside a jail, no model is called, and nothing is
    written. Exits with 3 when a check fails. A warning is about something optional.
    """
    if repo is not None and not repo.is_dir():
        wrong = "is not a directory" if repo.exists() else "does not exist"
        raise NotFound(f"The repository {str(repo)!r} {wrong}. Choose another: --repo DIR.")
    checks = examine(repo)
    healthy = all(check.status != "fail" for check in checks)
    if json_:
        typer.echo(json.dumps({"ok": healthy, "checks": [asdict(check) for check in checks]}))
    else:
        _show(checks, Terminal())
    return exit_codes.OK if healthy else exit_codes.NO


def examine(repo: Path | None = None) -> list[Check]:
    """Run every check, in parallel: several wait for other programs."""
    groups: list[Callable[[], list[Check]]] = [
        lambda: [attempt("python", python), attempt("settings", settings)],
        jail_checks,
        lambda: [attempt("git", git)],
        lambda: [attempt("rg", ripgrep)],
        lambda: [attempt("gh", gh)],
        _data,
        lambda: _with_settings(("secrets",), lambda loaded: [check_secrets(secrets(loaded))]),
        lambda: _with_settings(("model",), lambda loaded: [asyncio.run(check_own_model(loaded))]),
        lambda: _with_settings(("toolchains",), lambda loaded: [_toolchains(loaded)]),
        lambda: _with_settings(
            ("languages",), lambda loaded: [check_languages(loaded.settings.jail.toolchains)]
        ),
        lambda: _with_settings(("github",), lambda loaded: [check_github(tokens_of(loaded))]),
        lambda: _with_settings(
            ("delivery", "tests"), lambda loaded: asyncio.run(check_repository(installation(loaded), repo))
        ),
    ]
    with ThreadPoolExecutor(len(groups)) as threads:
        checks = [check for group in threads.map(lambda ask: ask(), groups) for check in group]
    if os.geteuid() == 0:
        return [replace(check, fix=check.fix.replace("sudo ", "")) for check in checks]
    return checks


def _toolchains(loaded: LoadedSettings) -> Check:
    return check_toolchains(loaded.settings.jail.toolchains, own_directories(loaded.paths))


def python() -> Check:
    version = sys.version_info[:3]
    found = f"{dotted(version)} at {sys.executable}"
    if version < MIN_PYTHON:
        return Check("python", "fail", f"{found}, older than {dotted(MIN_PYTHON)}", _install("python3"))
    return Check("python", "ok", found)


def settings() -> Check:
    """Check that the settings can be read."""
    try:
        loaded = load()
    except HutchError as error:
        return Check(
            "settings", "fail", str(error), "Correct the setting named above, then run: hutch config show"
        )
    changed = sum(origin != "default" for origin in loaded.origins.values())
    return Check("settings", "ok", f"{changed} set, {len(loaded.origins) - changed} at their defaults")


def _with_settings(names: Sequence[str], ask: Callable[[LoadedSettings], list[Check]]) -> list[Check]:
    """Run checks that need the settings. If the settings are invalid, their own check fails and says so."""
    try:
        loaded = load()
    except HutchError:
        return [Check(name, "warn", "not checked: the settings are invalid") for name in names]
    return attempt_all(names, lambda: ask(loaded))


def git() -> Check:
    """Check that git, which makes snapshots and commits, is installed."""
    check = _program("git", "fail", "snapshots and commits need it", _install("git"))
    version = version_of(["git", "--version"])
    if version is not None and version < MIN_GIT:
        return replace(check, status="fail", found=f"{check.found}, older than {dotted(MIN_GIT)}")
    return check


def ripgrep() -> Check:
    """Check that ripgrep, which the agent searches with, is installed."""
    return _program("rg", "fail", "the agent's search needs it", _install("ripgrep"))


def gh() -> Check:
    """Check that gh, which opens pull requests on GitHub, is installed."""
    why = "needed only for pull requests on GitHub"
    check = _program("gh", "warn", why, _install("gh"))
    version = version_of(["gh", "--version"]) if check.status == "ok" else None
    if version is not None and version < MIN_GH:
        found = f"{check.found}, older than {dotted(MIN_GH)}; {why}"
        return Check("gh", "warn", found, "Install a newer version: https://cli.github.com")
    return check


def disk(data: Path, home: Path | None = None) -> Check:
    """Check that the data directory is writable and has space. `home` is the directory to create first."""
    try:
        existing, kind = _nearest(data)
    except OSError as error:
        return Check("disk", "fail", f"{data} cannot be reached: {error.strerror}", _reaching_fix(data))
    if not stat.S_ISDIR(kind.st_mode):
        return Check("disk", "fail", f"{existing} is not a directory", f"Move it away.\n{OR_ELSEWHERE}")
    free = shutil.disk_usage(existing).free
    try:
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(b"hutch")
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            action = "written" if existing == data else f"created in {existing}"
            found = f"{data} cannot be {action}: {error.strerror}"
            return Check("disk", "fail", found, _writing_fix(data, existing, home or data))
        free = 0
    found = f"{_size(free)} free at {data}"
    fix = f"Free some space under {existing}, or set HUTCH_HOME to a directory on another disk."
    if free < FULL_BYTES:
        return Check("disk", "fail", f"{found}, less than {_size(FULL_BYTES)}", fix)
    if free < LOW_BYTES:
        return Check("disk", "warn", f"{found}, less than {_size(LOW_BYTES)}", fix)
    return Check("disk", "ok", found)


def database(file: Path) -> Check:
    """Check that the database is intact and writable; reads only, for at most a second."""
    try:
        is_file = stat.S_ISREG(file.stat().st_mode)
    except FileNotFoundError:
        return Check("database", "ok", f"none yet; it will be created at {file}")
    except OSError as error:
        return Check("database", "fail", f"{file} cannot be reached: {error.strerror}", _reaching_fix(file))
    if not is_file:
        return Check("database", "fail", f"{file} is not a file", f"Move it away.\n{OR_ELSEWHERE}")
    try:
        schema, is_whole = check_integrity(file, within_s=QUICK_CHECK_TIMEOUT_S)
    except DatabaseUnreadable as error:
        return Check("database", "fail", f"{file} cannot be read: {error}", _reading_fix(file, str(error)))
    except DatabaseUnsound as error:
        backups = file.parent / "backups"
        fix = f"Stop Hutch, copy {file} elsewhere, then restore the newest backup from {backups}."
        return Check("database", "fail", f"{file} is damaged: {error}", fix)
    found = f"{_size(file.stat().st_size)} at {file}, schema {schema or 'none'}"
    if not is_whole:
        found += f", no damage found in {QUICK_CHECK_TIMEOUT_S:g} s"
    if not _may(os.W_OK, file.parent, *file.parent.glob(f"{file.name}*")):
        fix = _writing_fix(file.parent, file.parent, file.parent)
        return Check("database", "fail", f"{found}; intact, but not writable", fix)
    return Check("database", "ok", found)


def clock(now_s: float, newest_ms: int | None) -> Check:
    """Check that the clock is plausible; events carry its time."""
    now = f"{datetime.fromtimestamp(now_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
    fix = "sudo timedatectl set-ntp true"
    if now_s < YEAR_2025_S:
        return Check("clock", "fail", f"it says {now}, which is too early", fix)
    if newest_ms is not None and now_s * 1000 < newest_ms:
        newest = f"{datetime.fromtimestamp(newest_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
        return Check("clock", "fail", f"it says {now}, but an event was written at {newest}", fix)
    return Check("clock", "ok", now)


def _data() -> list[Check]:
    """Check the data directory; its path is known even when the settings are invalid."""
    try:
        paths = find_paths()
    except HutchError as error:
        return [
            Check("disk", "fail", str(error), ELSEWHERE),
            Check("database", "fail", "not checked: there is no data directory", ELSEWHERE),
            attempt("clock", lambda: clock(time.time(), None)),
        ]
    if (location := _postgresql()) is not None:
        check, newest_ms = check_postgresql(location)
        return [
            attempt("disk", lambda: disk(paths.data, paths.home)),
            check,
            attempt("clock", lambda: clock(time.time(), newest_ms)),
        ]
    return [
        attempt("disk", lambda: disk(paths.data, paths.home)),
        attempt("database", lambda: database(paths.database)),
        attempt(
            "clock",
            lambda: clock(time.time(), newest_event_ms(paths.database, within_s=QUICK_CHECK_TIMEOUT_S)),
        ),
    ]


def _postgresql() -> PostgresqlDatabase | None:
    """The database in PostgreSQL, if the settings name one and can be read."""
    try:
        location = database_of(load())
    except HutchError:  # the check of the settings or of their secrets says so
        return None
    return None if isinstance(location, Path) else location


def _nearest(directory: Path) -> tuple[Path, os.stat_result]:
    """The directory itself, or its nearest existing ancestor."""
    for path in (directory, *directory.parents):
        try:
            return path, path.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(directory))


def _writing_fix(data: Path, existing: Path, home: Path) -> str:
    """How to make `data` writable; `existing` is its nearest existing ancestor.

    Suggests a change of ownership only for directories that certainly belong to Hutch.
    """
    file_system = os.statvfs(existing)
    if file_system.f_flag & os.ST_RDONLY:
        return f"{existing} is on a read-only file system. {ELSEWHERE}"
    if file_system.f_blocks == 0:  # /proc, /sys and the like hold no files
        return ELSEWHERE
    if existing == data:
        quoted = shlex.quote(str(data))
        if all(path.stat().st_uid == os.geteuid() for path in (data, *data.glob("hutch.db*"))):
            return f"chmod -R u+rwX {quoted}"
        is_ours = _may(os.R_OK | os.X_OK, data) and (data / "hutch.db").exists()
        return f"sudo chown -R $(id -u) {quoted}\n{OR_ELSEWHERE}" if is_ours else ELSEWHERE
    if existing.stat().st_uid == os.geteuid():
        return f"chmod u+w {shlex.quote(str(existing))}"
    if home.exists():  # it belongs to another user, for an unknown purpose
        return ELSEWHERE
    return f"sudo install -d -m 700 -o $(id -u) {shlex.quote(str(home))}\n{OR_ELSEWHERE}"


def _reaching_fix(path: Path) -> str:
    """How to get past the directory that denies access: the first ancestor that can be inspected."""
    for above in path.parents:
        try:
            is_mine = above.stat().st_uid == os.geteuid()
        except OSError:
            continue
        return f"chmod u+rwx {shlex.quote(str(above))}" if is_mine else ELSEWHERE
    return ELSEWHERE


def _reading_fix(file: Path, problem: str) -> str:
    if "locked" in problem:
        return f"fuser -v {shlex.quote(str(file))}  # find the process that holds it, then retry"
    if not _may(os.R_OK | os.W_OK, file, file.parent):
        return _writing_fix(file.parent, file.parent, file.parent)
    return f"sqlite3 -readonly {shlex.quote(str(file))} 'PRAGMA quick_check'  # read its report"


def _may(mode: int, *paths: Path) -> bool:
    return all(os.access(path, mode, effective_ids=True) for path in paths)


def _program(name: str, absent: Status, why: str, fix: str) -> Check:
    path = shutil.which(name)
    if path is None:
        return Check(name, absent, f"not on PATH; {why}", fix)
    version = version_of([path, "--version"])
    if version is None:
        return Check(name, absent, f"{path} does not print its version; {why}", f"{fix} --reinstall")
    return Check(name, "ok", f"{dotted(version)} at {path}")


def _install(package: str) -> str:
    return f"sudo apt-get install -y {package}"


def _size(count: int) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / MIB:.1f} MiB"


def _show(checks: Sequence[Check], terminal: Terminal) -> None:
    width = max(len(check.name) for check in checks)
    for check in checks:
        sign, ascii_sign, colour = MARKS[check.status]
        mark = sign if terminal.supports_unicode else ascii_sign
        indent = " " * (len(mark) + width + 3)
        found = escape(visible(check.found, lines=True)).replace("\n", f"\n{indent}")
        terminal.print(f"[{colour}]{mark}[/] {check.name:<{width}}  {found}", emoji=False)
        if check.status != "ok":
            for line in check.fix.splitlines():
                terminal.print(f"{indent}[dim]fix:[/] {escape(visible(line))}", emoji=False)
    failed = sum(check.status == "fail" for check in checks)
    warned = sum(check.status == "warn" for check in checks)
    verdict = "Hutch can run here." if not failed else "Hutch cannot run here yet."
    counts = f"{len(checks)} checks, {failed} failed, {warned} {'warning' if warned == 1 else 'warnings'}."
    terminal.print(f"\n{verdict} {counts}")
