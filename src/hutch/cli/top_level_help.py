"""The help of `hutch` itself, generated from the command table.

It looks like the help of a single command, fits the terminal, and loads no command.
"""

import re
import shutil
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from textwrap import fill

from hutch.cli.command_table import COMMANDS

USAGE = "Usage: hutch [OPTIONS] COMMAND [ARGS]..."
ABOUT = "Run coding agents in jails, watch them work, and review what they change."
OPTIONS = (
    ("--version", "Print the version."),
    ("--debug", "Show a traceback when a command fails."),
    ("-h, --help", "Show this message; after a command, the help of that command."),
)
EXAMPLES = (
    ("hutch", "show all sessions in a full-screen app, on a terminal"),
    ("hutch doctor", "check that this machine is ready"),
    ("hutch log SESSION", "show the events of a session"),
    ("hutch verify RECORD", "check that a record is unchanged"),
)
EXIT_CODES = (
    "0 success, 1 a bug, 2 bad request, 3 a check failed, 4 denied, 5 limit reached, "
    "6 unavailable, 7 the data was lost, 126 not executable, 127 no such program, 130 interrupted, "
    "141 output closed"
)
_NUMBER, KEEP = re.compile(r"(?<=\d) "), "\N{NO-BREAK SPACE}"  # no line break between a code and its meaning
MIN_WIDTH, MAX_WIDTH = 40, 100
WIDE_COLUMN_WIDTH = 60  # the terminal width from which the column of names is wide


def help_text(width: int | None = None, plugins: Sequence[tuple[str, str]] = ()) -> str:
    """The output of `hutch --help` for a width, by default the terminal's."""
    width = shutil.get_terminal_size().columns if width is None else width
    width = min(max(width, MIN_WIDTH), MAX_WIDTH)
    groups = dict.fromkeys(command.group for command in COMMANDS)
    sections = [(group, [(c.name, c.help) for c in COMMANDS if c.group == group]) for group in groups]
    sections += [("Plugins", list(plugins))] if plugins else []
    sections += [("Options", list(OPTIONS)), ("Examples", list(EXAMPLES))]
    return "\n".join(
        (
            f"{USAGE}\n\n{_indented(ABOUT, 2, width)}\n",
            *(f"{title}:\n{_rows(rows, width)}" for title, rows in sections),
            f"Exit codes:\n{_indented(_NUMBER.sub(KEEP, EXIT_CODES), 2, width)}\n".replace(KEEP, " "),
        )
    )


def first_words() -> list[tuple[str, str]]:
    """Valid first words after `hutch`: commands and options, each with its help."""
    options = [(name, help_) for names, help_ in OPTIONS for name in names.split(", ")]
    return [(command.name, command.help) for command in COMMANDS] + options


def unknown(word: str) -> str:
    """The error message for an unknown first word after `hutch`."""
    kind = "option" if word.startswith("-") else "command"
    names = [name for name, _ in first_words() if name.startswith("-") == (kind == "option")]
    near = get_close_matches(word, names, n=1)
    hint = f"Did you mean '{near[0]}'?" if near else f"'hutch --help' lists every {kind}."
    return f"There is no {kind} {word[:80]!r}. {hint}"


def _rows(rows: Iterable[tuple[str, str]], width: int) -> str:
    """Names with their descriptions; a name that is too long gets a line of its own."""
    column = 23 if width >= WIDE_COLUMN_WIDTH else 14
    lines = []
    for name, text in rows:
        description = _indented(text, column, width)
        fits = len(name) + 2 < column
        lines.append(f"  {name}{description[len(name) + 2 :]}" if fits else f"  {name}\n{description}")
    return "".join(f"{line}\n" for line in lines)


def _indented(text: str, indent: int, width: int) -> str:
    space = " " * indent
    return fill(text, width, initial_indent=space, subsequent_indent=space, break_on_hyphens=False)
