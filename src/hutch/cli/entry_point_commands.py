"""Commands that other distributions add through the entry point group `hutch.commands`.

    [project.entry-points."hutch.commands"]
    hello = "hutch_hello.commands:app"

An entry point names a `typer.Typer`, a function, or a click command. Entry points are read directly
from the metadata of installed distributions: nothing is imported before a command runs, and a plugin
that cannot be loaded does not affect the others.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hutch.cli.command_table import BY_NAME, Command

GROUP = "Plugins"
SECTION = "[hutch.commands]"
NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
TARGET = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_][\w.]*)\s*(\[.*\])?")
MAX_BYTES = 256 * 1024


class Plugin(NamedTuple):
    """An entry point, and the problem that prevents its use, if any."""

    command: Command
    distribution: str
    problem: str = ""


def find_plugins(paths: Sequence[str] | None = None) -> list[Plugin]:
    """All installed plugins, sorted by name; unusable ones have a `problem`."""
    found = sorted(_entries(sys.path if paths is None else paths))
    counts = [name for name, _, _ in found]
    return [_plugin(name, value, of, counts.count(name)) for name, value, of in found]


def find_plugin(name: str, paths: Sequence[str] | None = None) -> Plugin | None:
    return next((each for each in find_plugins(paths) if each.command.name == name), None)


def help_rows(plugins: Iterable[Plugin]) -> list[tuple[str, str]]:
    """Name and help of each plugin."""
    return [
        (each.command.name, f"Not used: {each.problem}" if each.problem else each.command.help)
        for each in plugins
    ]


def _plugin(name: str, value: str, distribution: str, count: int) -> Plugin:
    fits = TARGET.fullmatch(value)
    problem = ""
    if name in BY_NAME:
        problem = f"'{name}' is a command of Hutch itself, which {distribution} cannot replace."
    elif count > 1:
        problem = f"{count} distributions add '{name}', one of them {distribution}. Remove all but one."
    elif not fits:
        problem = f"The entry point of {distribution} is not of the form module:attribute."
    target = f"{fits[1]}:{fits[2]}" if fits else ""
    return Plugin(Command(GROUP, name, target, f"Added by {distribution}."), distribution, problem)


def _entries(paths: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Name, value and distribution of every entry point, each distribution once."""
    seen: set[str] = set()
    for path in paths:
        if not os.path.isabs(path):  # noqa: PTH117 - never load from the current directory
            continue
        try:
            names = [each for each in os.listdir(path) if each.endswith(".dist-info")]  # noqa: PTH208
        except OSError:
            continue
        for name in names:
            distribution = name.removesuffix(".dist-info").partition("-")[0].lower().replace("_", "-")
            if distribution in seen:
                continue
            seen.add(distribution)
            version = name.removesuffix(".dist-info").partition("-")[2]
            for entry, value in _section(f"{path}/{name}/entry_points.txt"):
                if NAME.fullmatch(entry):
                    yield entry, value, f"{distribution} {version}".strip()


def _section(file: str) -> Iterator[tuple[str, str]]:
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:  # noqa: PTH123 - Path is slower
            text = opened.read(MAX_BYTES)
    except OSError:
        return
    if SECTION not in text:
        return
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line
        elif section == SECTION and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield name.strip(), value.strip()
