"""The help of `hutch` itself, written from the command table.

It looks as the help of a single command does, and loads none of them.
"""

from collections.abc import Iterable
from difflib import get_close_matches

from hutch.cli.commands import COMMANDS

HEAD = """\
Usage: hutch [OPTIONS] COMMAND [ARGS]...

  Coding agents and people at work on code inside jails,
  watched through the glass.
"""
OPTIONS = (
    ("--version", "Print the version."),
    ("--debug", "Show where it happened when something breaks."),
    ("-h, --help", "Show this message; after a command, the help of that command."),
)
EXAMPLES = (
    ("hutch doctor", "is this machine ready?"),
    ("hutch log SESSION", "what happened in a session?"),
    ("hutch verify BUNDLE", "has this record been changed?"),
)
EXIT_CODES = """\
Exit codes:
  0 done, 1 a bug, 2 bad request, 3 checked and the answer is no,
  4 denied, 5 limit reached, 6 unavailable, 130 interrupted
"""


def help_text() -> str:
    """What `hutch --help` prints."""
    groups = dict.fromkeys(command.group for command in COMMANDS)
    return "\n".join(
        (
            HEAD,
            *(_section(group, [(c.name, c.help) for c in COMMANDS if c.group == group]) for group in groups),
            _section("Options", OPTIONS),
            _section("Examples", EXAMPLES),
            EXIT_CODES,
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


def _section(title: str, rows: Iterable[tuple[str, str]]) -> str:
    return f"{title}:\n" + "".join(f"  {name:<20} {text}\n" for name, text in rows)
