"""`hutch tally`: how many sessions are in each state.

A command is a function with typer's annotations; `ask` gives it a client of the server that other commands
use, and reports errors as they do.
"""

import json
from collections import Counter
from typing import Annotated

import typer

from hutch.cli.api_client import Client
from hutch.cli.server_requests import Json, ask, every_session


def tally(
    search: Annotated[str, typer.Option(metavar="WORDS", help="Only sessions with these words.")] = "",
    as_json: Json = False,
) -> int:
    """Count your sessions by state."""

    async def work(client: Client) -> None:
        states = Counter([session["state"] async for session in every_session(client, q=search)])
        if as_json:
            typer.echo(json.dumps(dict(states)))
            return
        for state, count in states.most_common():
            typer.echo(f"{count:>5}  {state}")
        if not states:
            typer.echo("There are no sessions.", err=True)

    return ask(work, as_json=as_json)
