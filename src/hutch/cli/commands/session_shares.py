"""`hutch sessions share`: let other users view a session, or work in it."""

import json
from typing import Annotated

import typer

from hutch.cli.api_client import Client, path_of
from hutch.cli.server_requests import Json, SessionName, ask, find_session, short
from hutch.domain.errors import BadRequest, Denied
from hutch.domain.user import SHARE_SCOPES
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.terminal_safe_text import visible

ROLES = {  # what each role may do
    "observer": "can view it",
    "assessor": "can view it",
    "member": "can view it and work in it",
    "candidate": "can view it and work in it",
}
UserName = Annotated[str, typer.Argument(metavar="USER", help="A user's name or id.")]


def share_command(
    session: SessionName,
    user: UserName,
    role: Annotated[
        str,
        typer.Option(
            metavar="|".join(ROLES), help="Observers and assessors can view it, the others can work in it."
        ),
    ] = "observer",
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="|".join(SHARE_SCOPES),
            help="Limit their work to this, besides reading; may be repeated. All by default.",
        ),
    ] = None,
    hours: Annotated[
        int | None, typer.Option(min=1, max=24 * 366, help="Hours after which the share ends.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Share a session with a user, or change their role in it."""
    if role not in ROLES:
        raise BadRequest(f"There is no role {role[:40]!r}. Choose one of {', '.join(ROLES)}.")
    if wrong := next((each for each in scope or () if each not in SHARE_SCOPES), None):
        raise BadRequest(f"There is no scope {wrong[:40]!r}. Choose among {', '.join(SHARE_SCOPES)}.")

    async def work(client: Client) -> None:
        found = await find_session(client, session)
        limits = {"scopes": scope or [], "expires_ms": hours and wall_ms() + hours * 3_600_000}
        made = await client.put(f"/sessions/{found['id']}/shares/{_part(user)}", {"role": role, **limits})
        if as_json:
            typer.echo(json.dumps(made))
            return
        typer.echo(f"{visible(made['user_name'])} is now {role} of {short(found['id'])}: {ROLES[role]}.")
        typer.echo(f"To revoke: hutch sessions unshare {short(found['id'])} {visible(user)}", err=True)

    return ask(work, as_json=as_json)


def unshare_command(session: SessionName, user: UserName, as_json: Json = False) -> int:
    """Revoke a share, or give up your own. Takes effect immediately."""

    async def work(client: Client) -> None:
        found = await find_session(client, session)
        await client.delete(f"/sessions/{found['id']}/shares/{_part(user)}")
        if as_json:
            typer.echo(json.dumps({"session_id": found["id"], "unshared": user}))
        else:
            typer.echo(f"{short(found['id'])} is no longer shared with {visible(user)}.")

    return ask(work, as_json=as_json)


async def shares_of(client: Client, session_id: str) -> list[dict[str, str]]:
    """The shares of a session; empty when the caller may not see them."""
    try:
        return list(await client.get(f"/sessions/{session_id}/shares"))
    except Denied:
        return []


def _part(name: str) -> str:
    """A user name as one part of a URL path."""
    if not name.strip() or "/" in name or name in (".", ".."):
        raise BadRequest(f"{name[:80]!r} is not a user name. `hutch users list` lists the users.")
    return path_of(name)
