"""`hutch logs`: the server's own log."""

import json
import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from hutch import settings
from hutch.domain.errors import BadRequest, NotFound
from hutch.system.terminal_safe_text import printable

LEVELS = ("debug", "info", "warning", "error", "critical")
COLOURS = {"warning": "yellow", "error": "red", "critical": "red"}
POLL_INTERVAL_S = 0.2
Line = dict[str, Any]


def logs_command(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, max=1_000_000, help="How many lines.")] = 50,
    level: Annotated[
        str, typer.Option(metavar="|".join(LEVELS[:4]), help="Only lines of at least this level.")
    ] = "debug",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Show the newest lines of the server's log."""
    if level not in LEVELS:
        raise BadRequest(f"--level {level[:40]!r} is not one of {', '.join(LEVELS[:4])}.")
    levels = LEVELS[LEVELS.index(level) :]
    log = settings.find_paths().server_log
    if not log.exists():
        raise NotFound(f"There is no log at {log}: no server was started here yet. Start one: hutch up")
    with log.open(errors="replace") as file:
        newest = _newest(file, levels, lines)
        older = log.with_name(f"{log.name}.1")
        if len(newest) < lines and older.exists():  # the log was just rotated
            with older.open(errors="replace") as before:
                newest = [*_newest(before, levels, lines - len(newest)), *newest]
        for line in newest:
            _print(line, as_json=as_json)
        if follow:
            for text in _follow(log, file):
                for line in _read(text, levels):
                    _print(line, as_json=as_json)


def _newest(file: TextIO, levels: tuple[str, ...], count: int) -> list[Line]:
    found: deque[Line] = deque(maxlen=count)
    for text in file:
        found.extend(_read(text, levels))
    return list(found)


def _read(text: str, levels: tuple[str, ...]) -> Iterator[Line]:
    """The line if it has one of the levels; nothing if a crash cut it off."""
    try:
        line = json.loads(text)
    except ValueError:
        return
    if isinstance(line, dict) and line.get("level") in levels:
        yield line


def _follow(log: Path, file: TextIO) -> Iterator[str]:
    """Yield lines as they are written, continuing in the new file when the log is rotated."""
    part = ""
    while True:
        is_rotated = _is_another(log, file)  # checked before reading: nothing is written here afterwards
        *whole, part = (part + file.read()).split("\n")
        yield from whole
        if is_rotated:
            file, part = log.open(errors="replace"), ""
        elif not whole:
            time.sleep(POLL_INTERVAL_S)


def _is_another(log: Path, file: TextIO) -> bool:
    try:
        return log.stat().st_ino != os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return False  # in the middle of a rotation


def _print(line: Line, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(line))
        return
    when, level, event = (str(line.pop(key, "")) for key in ("time", "level", "event"))
    trace = line.pop("exception", "")
    pairs = [f"{key}={json.dumps(value)}" for key, value in line.items()]
    text = f"{when}  {level:<8}  {event}  {' '.join(pairs)}".rstrip()
    for row in (text, *(f"    {row}" for row in str(trace).splitlines())):
        typer.secho(printable(row), fg=COLOURS.get(level))
