"""`hutch sessions share`: let others see a session, or work in it."""

import json
from typing import Annotated

import typer

from hutch.cli.client import Client, path_of
from hutch.cli.server_requests import Json, SessionName, ask, find_session, short
from hutch.domain.errors import BadRequest, Denied
from hutch.system.terminal_text import visible

ROLES = {  # what each may
    "observer": "may see it",
    "assessor": "may see it",
    "member": "may see it and work in it",
    "candidate": "may see it and work in it",
}
UserName = Annotated[str, typer.Argument(metavar="USER", help="A user's name or id.")]


def share_command(
    session: SessionName,
    user: UserName,
    role: Annotated[
        str,
        typer.Option(metavar="|".join(ROLES), help="Observers and assessors see it, the others work in it."),
    ] = "observer",
    as_json: Json = False,
) -> int:
    """Share a session with a user, or change what they may in it."""
    if role not in ROLES:
        raise BadRequest(f"There is no role {role[:40]!r}; there is {', '.join(ROLES)}.")

    async def work(client: Client) -> None:
        found = await find_session(client, session)
        made = await client.put(f"/sessions/{found['id']}/shares/{_part(user)}", {"role": role})
        if as_json:
            typer.echo(json.dumps(made))
            return
        typer.echo(f"{visible(made['user_name'])} is {role} of {short(found['id'])} now: {ROLES[role]}.")
        typer.echo(f"Take it back: hutch sessions unshare {short(found['id'])} {visible(user)}", err=True)

    return ask(work, as_json=as_json)


def unshare_command(session: SessionName, user: UserName, as_json: Json = False) -> int:
    """Take a share back, or give up your own. It holds at once."""

    async def work(client: Client) -> None:
        found = await find_session(client, session)
        await client.delete(f"/sessions/{found['id']}/shares/{_part(user)}")
        if as_json:
            typer.echo(json.dumps({"session_id": found["id"], "unshared": user}))
        else:
            typer.echo(f"{short(found['id'])} is not shared with {visible(user)} any more.")

    return ask(work, as_json=as_json)


async def shares_of(client: Client, session_id: str) -> list[dict[str, str]]:
    """With whom a session is shared; nobody, to who may not know."""
    try:
        return list(await client.get(f"/sessions/{session_id}/shares"))
    except Denied:
        return []


def _part(name: str) -> str:
    """A name as one part of an address."""
    if not name.strip() or "/" in name or name in (".", ".."):
        raise BadRequest(f"{name[:80]!r} names no user. `hutch users list` shows those there are.")
    return path_of(name)
