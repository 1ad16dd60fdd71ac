"""`hutch version`: version information for bug reports."""

import json
import os
import sys
from typing import Annotated

import typer

import hutch


def version_command(
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the versions of Hutch, Python and the kernel."""
    kernel = os.uname()
    found = {
        "hutch": hutch.__version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "kernel": f"{kernel.sysname} {kernel.release} {kernel.machine}",
    }
    if json_:
        typer.echo(json.dumps(found))
    else:
        typer.echo("\n".join(f"{name:<7} {value}" for name, value in found.items()))
