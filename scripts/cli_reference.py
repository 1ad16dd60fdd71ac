"""Writes docs/cli.md from the commands themselves.

scripts/cli_reference.py            write it
scripts/cli_reference.py --check    exit with 1 when it is stale
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.core import TyperGroup

from hutch.cli import exit_codes, top_level_help
from hutch.cli.command_table import COMMANDS
from hutch.cli.dispatch import load

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
WIDTH = 80
HEAD = """\
# The command line

Written by `scripts/cli_reference.py` from the commands themselves: change those, then run `make docs`.

## hutch

```text
{help}```

With `hutch completion` your shell completes commands and options, `last` and the ids of the newest 50
sessions, the names of secrets, and files.

"""


def page() -> str:
    parts = [HEAD.format(help=top_level_help.help_text(width=WIDTH))]
    for command in COMMANDS:
        loaded = load(command)
        parts += _command(loaded, loaded.make_context(f"hutch {command.name}", [], resilient_parsing=True))
    return "".join([*parts, *_exit_codes()])


def _command(command: Any, context: Any) -> Iterator[str]:
    """The section of a command, then those of its sub-commands."""
    yield f"## {context.command_path}\n\n"
    yield _prose(command.help or "")
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{context.command_path} {pieces}\n```\n\n"
    for kind in ("argument", "option"):
        records = [p.get_help_record(context) for p in command.params if p.param_type_name == kind]
        rows = [(f"`{record[0]}`", record[1]) for record in records if record]
        if rows:
            yield _table((kind.capitalize(), "Meaning"), rows)
    if isinstance(command, TyperGroup):
        for name, below in command.commands.items():
            yield from _command(below, below.make_context(name, [], parent=context, resilient_parsing=True))


def _prose(text: str) -> str:
    """Join the lines of paragraphs, except one that starts with a backspace, as in the help."""
    parts = []
    for paragraph in text.strip().split("\n\n"):
        verbatim = paragraph.startswith("\b\n")
        parts.append(f"```text\n{paragraph[2:]}\n```" if verbatim else " ".join(paragraph.split()))
    return "\n\n".join(parts) + "\n\n"


def _exit_codes() -> Iterator[str]:
    yield "## Exit codes\n\n"
    yield _table(
        ("Code", "Meaning"), [(f"`{code}`", meaning) for code, meaning in exit_codes.MEANINGS.items()]
    )


def _table(head: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    lines = [head, ("---", "---"), *rows]
    return "".join(f"| {_cell(name)} | {_cell(text)} |\n" for name, text in lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> int:
    wanted = page().rstrip("\n") + "\n"
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(wanted)
        return 0
    if PAGE.exists() and PAGE.read_text() == wanted:
        return 0
    print(f"{PAGE.name} is stale. Run: make docs", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
