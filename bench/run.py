"""`make bench`: measures every claim about speed, together with a named alternative in the same run.

A claim is a function in a `claim_*.py` beside this file that yields rows. Figures do not
fail a build: machines differ, and load distorts them.
"""

import importlib
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

BENCH = Path(__file__).parent


def main(selected: list[str]) -> None:
    names = [path.stem.removeprefix("claim_") for path in sorted(BENCH.glob("claim_*.py"))]
    if unknown := [name for name in selected if name not in names]:
        sys.exit(f"There is no claim {unknown[0]!r}. Choose from these, or none for all: {', '.join(names)}.")
    table = Table("claim", "ours", "alternative", "theirs", "ratio", "bar", "")
    sys.path.insert(0, str(BENCH.parent))
    console = Console()
    console.width = max(console.width, 130)  # a narrower table would wrap its words
    try:
        for name in selected or names:
            console.print(f"measuring {name} …", style="dim")
            for row in importlib.import_module(f"bench.claim_{name}").measure():
                table.add_row(*row.cells(), "[green]holds[/]" if row.holds else "[red]misses[/]")
    finally:  # an error or Ctrl-C loses no row that was measured before
        console.print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
