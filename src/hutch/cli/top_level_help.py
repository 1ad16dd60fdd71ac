"""The help of `hutch` itself, written from the command table.

It looks as the help of a single command does, fits the terminal, and loads none of
the commands.
"""

import re
import shutil
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from textwrap import fill

from hutch.cli.command_table import COMMANDS

USAGE = "Usage: hutch [OPTIONS] COMMAND [ARGS]..."
ABOUT = "Coding agents and people at work on code inside jails, watched through the glass."
OPTIONS = (
    ("--version", "Print the version."),
    ("--debug", "Show where it happened when something breaks."),
    ("-h, --help", "Show this message; after a command, the help of that command."),
)
EXAMPLES = (
    ("hutch", "all sessions on a full screen, on a terminal"),
    ("hutch doctor", "is this machine ready?"),
    ("hutch log SESSION", "what happened in a session?"),
    ("hutch verify RECORD", "has this record been changed?"),
)
EXIT_CODES = (
    "0 done, 1 a bug, 2 bad request, 3 checked and the answer is no, 4 denied, 5 limit reached, "
    "6 unavailable, 7 the data is gone, 126 not executable, 127 no such program, 130 interrupted, "
    "141 nobody reads the output any more"
)
_NUMBER, KEEP = re.compile(r"(?<=\d) "), "\N{NO-BREAK SPACE}"  # a code stays beside its meaning
NARROWEST, WIDEST = 40, 100
ROOMY = 60  # from here on there is room for a wide column of names


def help_text(width: int | None = None, plugins: Sequence[tuple[str, str]] = ()) -> str:
    """What `hutch --help` prints, on a terminal of this width or else on the one we have."""
    width = shutil.get_terminal_size().columns if width is None else width
    width = min(max(width, NARROWEST), WIDEST)
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
    """What may stand right after `hutch`: commands and options, each with its help."""
    options = [(name, help_) for names, help_ in OPTIONS for name in names.split(", ")]
    return [(command.name, command.help) for command in COMMANDS] + options


def unknown(word: str) -> str:
    """What to say about a first word that is neither a command nor an option of `hutch`."""
    kind = "option" if word.startswith("-") else "command"
    names = [name for name, _ in first_words() if name.startswith("-") == (kind == "option")]
    near = get_close_matches(word, names, n=1)
    way_out = f"Did you mean '{near[0]}'?" if near else "'hutch --help' lists what there is."
    return f"There is no {kind} {word[:80]!r}. {way_out}"


def _rows(rows: Iterable[tuple[str, str]], width: int) -> str:
    """Names, and beside them what they mean; a name that is too long stands alone on its line."""
    column = 23 if width >= ROOMY else 14
    lines = []
    for name, text in rows:
        told = _indented(text, column, width)
        fits = len(name) + 2 < column
        lines.append(f"  {name}{told[len(name) + 2 :]}" if fits else f"  {name}\n{told}")
    return "".join(f"{line}\n" for line in lines)


def _indented(text: str, indent: int, width: int) -> str:
    space = " " * indent
    return fill(text, width, initial_indent=space, subsequent_indent=space, break_on_hyphens=False)
