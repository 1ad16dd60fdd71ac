"""Finds an interview by the name that a user gives, and takes a step of it on the server."""

import json
from typing import Annotated, Any

import typer

from hutch.cli.api_client import Client
from hutch.cli.render.interviews import line
from hutch.cli.server_requests import ask, every
from hutch.domain.errors import NotFound
from hutch.domain.ids import ambiguous_id, matches_id

InterviewName = Annotated[
    str,
    typer.Argument(metavar="INTERVIEW", help="An interview's id, a unique part of it, or 'last'."),
]


async def find_interview(client: Client, name: str) -> dict[str, Any]:
    """An interview by its id, a unique part of it, or `last`."""
    found = [each async for each in every(client, "/interviews")]
    if name == "last" and found:
        return found[0]
    matching = [each for each in found if matches_id(each["id"], name)]
    if not matching:
        raise NotFound(f"There is no interview {name[:80]!r}. `hutch interviews list` lists them.")
    if len(matching) > 1:
        raise ambiguous_id([each["id"] for each in matching], name, "interviews")
    return dict(await client.get(f"/interviews/{matching[0]['id']}"))


def take_step(name: str, what: str, body: dict[str, Any] | None, *, as_json: bool) -> int:
    """Take a step that returns the interview, and print its line."""

    async def work(client: Client) -> None:
        found = await find_interview(client, name)
        changed = await client.post(f"/interviews/{found['id']}/{what}", body)
        typer.echo(json.dumps(changed) if as_json else line(changed))

    return ask(work, as_json=as_json)


def add_to_record(name: str, what: str, body: dict[str, Any], done: str, *, as_json: bool) -> int:
    """Add something to the record of an interview, and say so."""

    async def work(client: Client) -> None:
        found = await find_interview(client, name)
        added = await client.post(f"/interviews/{found['id']}/{what}", body)
        typer.echo(json.dumps(added) if as_json else done)

    return ask(work, as_json=as_json)
