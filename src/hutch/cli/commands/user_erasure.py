"""`hutch users erase`: erase a user, and say what remains."""

import sys
from dataclasses import asdict
from typing import Annotated, Any, cast

import typer

from hutch.app.local_sessions import Local
from hutch.cli.api_client import Client, path_of
from hutch.cli.commands.preferences_and_model_keys import use_server_or_database
from hutch.cli.server_requests import Json
from hutch.domain.errors import BadRequest, NotFound
from hutch.domain.user import name_key
from hutch.flows import user_erasure
from hutch.flows.user_accounts import LOCAL, Accounts
from hutch.store.user_row_erasure import Mentions
from hutch.system.terminal_safe_text import visible

MAX_USERS = 10_000


def erase_command(
    name: Annotated[str, typer.Argument(metavar="USER", help="A name or an id.")],
    sessions: Annotated[
        str | None, typer.Option(metavar="erase", help="End and erase the sessions that the user owns.")
    ] = None,
    heir: Annotated[
        str | None, typer.Option(metavar="USER", help="Hand these sessions over to this user instead.")
    ] = None,
    mentions: Annotated[
        str | None,
        typer.Option(metavar="erase|keep", help="What happens to events of others with the user's name."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: Json = False,
) -> int:
    """Erase a user with all that belongs to them.

    Removes account, tokens, logins, preferences, keys, approvals and shares. Asks what happens to their
    sessions and to events with their name, unless the options say so. If it is interrupted, repeat it, or
    restart the server. This cannot be undone.
    """
    if sessions not in (None, "erase"):
        raise BadRequest(f"--sessions {sessions[:40]!r} is unknown. Use --sessions erase, or --heir USER.")
    if mentions not in (None, "erase", "keep"):
        raise BadRequest(f"--mentions {mentions[:40]!r} is unknown. Use erase or keep.")
    choices: dict[str, Any] = {"sessions": sessions, "heir": heir, "mentions": mentions}

    async def on_server(client: Client) -> Any:
        user_id = await _find(client, name)
        plan = await client.get(f"/users/{path_of(user_id)}/erasure")
        _confirm(plan, choices, yes=yes)
        return await client.post(f"/users/{path_of(user_id)}/erase", choices)

    async def in_database(local: Local) -> Any:
        user = await Accounts(local.services.rows).users.find(name)
        _confirm(asdict(await user_erasure.plan(local.services, user)), choices, yes=yes)
        erased = await user_erasure.erase(
            local.services,
            local.caller,
            user.id,
            heir=choices["heir"],
            erases_sessions=choices["sessions"] == "erase",
            mentions=cast(Mentions | None, choices["mentions"]),
            actor=LOCAL,
        )
        return asdict(erased)

    return use_server_or_database(on_server, in_database, _show, as_json=as_json)


def _confirm(plan: dict[str, Any], choices: dict[str, Any], *, yes: bool) -> None:
    """Ask what was not said, on a terminal; elsewhere the erasure refuses to guess."""
    asks = sys.stdin.isatty()
    name, owned = visible(plan["name"]), len(plan["sessions"])
    if owned and not (choices["sessions"] or choices["heir"]) and asks:
        heir = typer.prompt(
            f"{name} owns {owned} sessions. Who gets them? (a user, or empty to erase them)", "", err=True
        )
        choices["heir"], choices["sessions"] = heir or None, None if heir else "erase"
    if plan["mentions"] and not choices["mentions"] and asks:
        question = f"{plan['mentions']} events of other sessions contain '{name}'. Erase their content?"
        choices["mentions"] = "erase" if typer.confirm(question, err=True) else "keep"
    if yes:
        return
    if not asks:
        raise BadRequest("There is no terminal to ask for confirmation. Use --yes to erase without it.")
    typer.confirm(f"Erase the user {name}? This cannot be undone.", abort=True, err=True)


async def _find(client: Client, name: str) -> str:
    """The id of a user of the server."""
    cursor, seen = "", 0
    while seen < MAX_USERS:
        page = await client.get("/users", cursor=cursor, limit=200)
        for user in page["items"]:
            if user["id"] == name or name_key(user["name"]) == name_key(name):
                return str(user["id"])
        seen, cursor = seen + len(page["items"]), page["next"] or ""
        if not cursor:
            break
    raise NotFound(f"There is no user {name[:80]!r}. `hutch users list` lists all.")


def _show(erased: Any) -> None:
    typer.echo(
        f"The user {erased['user_id']} is erased: {erased['sessions_erased']} sessions erased, "
        f"{erased['sessions_handed_over']} handed over, {erased['events_erased']} events of other sessions "
        f"erased, {erased['secrets_deleted']} secrets deleted."
    )
    typer.echo("What remains, and why:", err=True)
    for line in erased["remains"]:
        typer.echo(f"  {visible(line)}", err=True)
