"""`hutch doctor`: can this machine run Hutch, and if not, what would mend it?

Every check answers by itself, also when all the others fail: this is the command
for the day on which nothing works.
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

from hutch.app.doctor import check_own_model, installation
from hutch.app.github_check import check_github
from hutch.cli import exit_codes
from hutch.cli.render.console import Terminal
from hutch.domain.errors import HutchError, NotFound
from hutch.flows.checks.repository import check_repository
from hutch.jail.probe import Check, Status, attempt, attempt_all, dotted, jail_checks, version_of
from hutch.settings import LoadedSettings, find_paths, load
from hutch.store.read_only_queries import (
    DatabaseUnreadable,
    DatabaseUnsound,
    check_integrity,
    newest_event_ms,
)
from hutch.system.terminal_text import visible

GIB, MIB = 1024**3, 1024**2
LOW_BYTES, FULL_BYTES = 2 * GIB, 200 * MIB
OLDEST_PYTHON = (3, 11)
OLDEST_GIT = (2, 34)
OLDEST_GH = (2, 23)
YEAR_2025_S = datetime(2025, 1, 1, tzinfo=UTC).timestamp()
QUICK_CHECK_S = 1.0
ELSEWHERE = "Set HUTCH_HOME to a directory of your own: export HUTCH_HOME=~/hutch"
OR_ELSEWHERE = "or: export HUTCH_HOME=~/hutch"

MARKS: dict[Status, tuple[str, str, str]] = {  # as a sign, in ASCII, in colour
    "ok": ("✓", "ok", "green"),
    "warn": ("!", "!!", "yellow"),
    "fail": ("✗", "XX", "red"),
}


def doctor_command(
    repo: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Check this repository; else the one of the current directory."),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Check that this machine can run Hutch, and say how to mend what is missing.

    Also which model a run would take, whether pull requests can be opened, and whether the tests of a
    repository can be run in a jail. Nothing of the repository runs outside of a jail, no model is asked, and
    nothing is written. Exits with 3 when a check fails. Warnings are about things that Hutch can do without.
    """
    if repo is not None and not repo.is_dir():
        wrong = "is not a directory" if repo.exists() else "is not there"
        raise NotFound(f"The repository {str(repo)!r} {wrong}. Name another: --repo DIR.")
    checks = examine(repo)
    healthy = all(check.status != "fail" for check in checks)
    if json_:
        typer.echo(json.dumps({"ok": healthy, "checks": [asdict(check) for check in checks]}))
    else:
        _show(checks, Terminal())
    return exit_codes.OK if healthy else exit_codes.NO


def examine(repo: Path | None = None) -> list[Check]:
    """Run every check; those that wait for another program, side by side."""
    groups: list[Callable[[], list[Check]]] = [
        lambda: [attempt("python", python), attempt("settings", settings)],
        jail_checks,
        lambda: [attempt("git", git)],
        lambda: [attempt("rg", ripgrep)],
        lambda: [attempt("gh", gh)],
        _data,
        lambda: _with_settings(("model",), lambda loaded: [asyncio.run(check_own_model(loaded))]),
        lambda: _with_settings(("github",), lambda loaded: [check_github(loaded)]),
        lambda: _with_settings(
            ("delivery", "tests"), lambda loaded: asyncio.run(check_repository(installation(loaded), repo))
        ),
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


def _with_settings(names: Sequence[str], ask: Callable[[LoadedSettings], list[Check]]) -> list[Check]:
    """Checks that need the settings. Where these are wrong, another check fails and says so."""
    try:
        loaded = load()
    except HutchError:
        return [Check(name, "warn", "not checked, since the settings are wrong") for name in names]
    return attempt_all(names, lambda: ask(loaded))


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
    why = "needed for pull requests on GitHub, and for nothing else"
    check = _program("gh", "warn", why, _install("gh"))
    version = version_of(["gh", "--version"]) if check.status == "ok" else None
    if version is not None and version < OLDEST_GH:
        found = f"{check.found}, older than {dotted(OLDEST_GH)}; {why}"
        return Check("gh", "warn", found, "Install a newer one: https://cli.github.com")
    return check


def disk(data: Path, home: Path | None = None) -> Check:
    """Whether the data directory can be written, and for how long. `home` is what Hutch would make first."""
    try:
        place, kind = _nearest(data)
    except OSError as error:
        return Check("disk", "fail", f"{data} cannot be reached: {error.strerror}", _reaching_fix(data))
    if not stat.S_ISDIR(kind.st_mode):
        return Check("disk", "fail", f"{place} is not a directory", f"Move it away.\n{OR_ELSEWHERE}")
    free = shutil.disk_usage(place).free
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"hutch")
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            found = f"{data} cannot be {'written' if place == data else f'made in {place}'}: {error.strerror}"
            return Check("disk", "fail", found, _writing_fix(data, place, home or data))
        free = 0
    found = f"{_size(free)} free at {data}"
    more_room = f"Free some space under {place}, or set HUTCH_HOME to a directory on another disk."
    if free < FULL_BYTES:
        return Check("disk", "fail", f"{found}, less than {_size(FULL_BYTES)}", more_room)
    if free < LOW_BYTES:
        return Check("disk", "warn", f"{found}, less than {_size(LOW_BYTES)}", more_room)
    return Check("disk", "ok", found)


def database(file: Path) -> Check:
    """Whether the database is sound and can be written; reads only, and for a second at most."""
    try:
        is_file = stat.S_ISREG(file.stat().st_mode)
    except FileNotFoundError:
        return Check("database", "ok", f"none yet; it will be at {file}")
    except OSError as error:
        return Check("database", "fail", f"{file} cannot be reached: {error.strerror}", _reaching_fix(file))
    if not is_file:
        return Check("database", "fail", f"{file} is not a file", f"Move it away.\n{OR_ELSEWHERE}")
    try:
        schema, is_whole = check_integrity(file, within_s=QUICK_CHECK_S)
    except DatabaseUnreadable as error:
        return Check("database", "fail", f"{file} cannot be read: {error}", _reading_fix(file, str(error)))
    except DatabaseUnsound as error:
        backups = file.parent / "backups"
        mend = f"Stop Hutch, keep a copy of {file}, then put back the newest backup from {backups}."
        return Check("database", "fail", f"{file} is damaged: {error}", mend)
    found = f"{_size(file.stat().st_size)} at {file}, schema {schema or 'none'}"
    if not is_whole:
        found += f", nothing wrong found in {QUICK_CHECK_S:g} s"
    if not _may(os.W_OK, file.parent, *file.parent.glob(f"{file.name}*")):
        mend = _writing_fix(file.parent, file.parent, file.parent)
        return Check("database", "fail", f"{found}; sound, but it cannot be written", mend)
    return Check("database", "ok", found)


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
            Check("disk", "fail", str(error), ELSEWHERE),
            Check("database", "fail", "not looked for: there is no directory to look in", ELSEWHERE),
            attempt("clock", lambda: clock(time.time(), None)),
        ]
    return [
        attempt("disk", lambda: disk(paths.data, paths.home)),
        attempt("database", lambda: database(paths.database)),
        attempt("clock", lambda: clock(time.time(), newest_event_ms(paths.database, within_s=QUICK_CHECK_S))),
    ]


def _nearest(directory: Path) -> tuple[Path, os.stat_result]:
    """The directory itself, or the nearest of those above it that exists."""
    for path in (directory, *directory.parents):
        try:
            return path, path.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(directory))


def _writing_fix(data: Path, place: Path, home: Path) -> str:
    """How to be allowed to write `data`, of which `place` is the part that exists.

    Only what is Hutch's own, and certain to be, is ever to change hands.
    """
    file_system = os.statvfs(place)
    if file_system.f_flag & os.ST_RDONLY:
        return f"{place} is on a file system that is read-only. {ELSEWHERE}"
    if file_system.f_blocks == 0:  # /proc, /sys and the like hold no files
        return ELSEWHERE
    if place == data:
        quoted = shlex.quote(str(data))
        if all(path.stat().st_uid == os.geteuid() for path in (data, *data.glob("hutch.db*"))):
            return f"chmod -R u+rwX {quoted}"
        is_ours = _may(os.R_OK | os.X_OK, data) and (data / "hutch.db").exists()
        return f"sudo chown -R $(id -u) {quoted}\n{OR_ELSEWHERE}" if is_ours else ELSEWHERE
    if place.stat().st_uid == os.geteuid():
        return f"chmod u+w {shlex.quote(str(place))}"
    if home.exists():  # somebody else's, who knows what for
        return ELSEWHERE
    return f"sudo install -d -m 700 -o $(id -u) {shlex.quote(str(home))}\n{OR_ELSEWHERE}"


def _reaching_fix(path: Path) -> str:
    """How to pass the directory that keeps us out; it is the first one that can be seen."""
    for above in path.parents:
        try:
            is_mine = above.stat().st_uid == os.geteuid()
        except OSError:
            continue
        return f"chmod u+rwx {shlex.quote(str(above))}" if is_mine else ELSEWHERE
    return ELSEWHERE


def _reading_fix(file: Path, said: str) -> str:
    if "locked" in said:
        return f"fuser -v {shlex.quote(str(file))}  # see who holds it, then look again"
    if not _may(os.R_OK | os.W_OK, file, file.parent):
        return _writing_fix(file.parent, file.parent, file.parent)
    return f"sqlite3 -readonly {shlex.quote(str(file))} 'PRAGMA quick_check'  # see by hand what it says"


def _may(mode: int, *paths: Path) -> bool:
    return all(os.access(path, mode, effective_ids=True) for path in paths)


def _program(name: str, absent: Status, why: str, fix: str) -> Check:
    path = shutil.which(name)
    if path is None:
        return Check(name, absent, f"not on PATH; {why}", fix)
    version = version_of([path, "--version"])
    if version is None:
        return Check(name, absent, f"{path} does not tell its version; {why}", f"{fix} --reinstall")
    return Check(name, "ok", f"{dotted(version)} at {path}")


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
        found = escape(visible(check.found, lines=True)).replace("\n", f"\n{indent}")
        terminal.print(f"[{colour}]{mark}[/] {check.name:<{width}}  {found}")
        if check.status != "ok":
            for line in check.fix.splitlines():
                terminal.print(f"{indent}[dim]fix:[/] {escape(visible(line))}")
    failed = sum(check.status == "fail" for check in checks)
    warned = sum(check.status == "warn" for check in checks)
    verdict = "Hutch can run here." if not failed else "Hutch cannot run here yet."
    counts = f"{len(checks)} checks, {failed} failed, {warned} {'warning' if warned == 1 else 'warnings'}."
    terminal.print(f"\n{verdict} {counts}")
