"""`hutch tokens`: manage API tokens on the server's own machine; after a login elsewhere, list those there.

Works on the database itself, so no server has to run. A running server accepts a new token
immediately and refuses a revoked one within seconds.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from hutch.cli.api_client import Client
from hutch.cli.local_only_notice import follows_login
from hutch.cli.local_users_and_tokens import with_accounts
from hutch.cli.server_requests import Local, ask, every, names_of_users
from hutch.domain.errors import BadRequest, NotFound
from hutch.domain.user import parse_scopes, scopes_of
from hutch.flows.user_accounts import LOCAL, TOKEN_DAYS, Accounts
from hutch.flows.user_running_hutch import system_user
from hutch.store.tokens import Token

app = typer.Typer(help="Create and revoke API tokens.", no_args_is_help=True, add_completion=False)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
MAX_DAYS = 36_500


@app.command()
def create(
    name: Annotated[str, typer.Option(help="A name to recognise it by.")] = "",
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="read|write|admin", help="A scope; may be repeated. By default, all scopes of its user."
        ),
    ] = None,
    expires: Annotated[str, typer.Option(metavar="DAYS", help="Days until it expires, or 'never'.")] = str(
        TOKEN_DAYS
    ),
    user: Annotated[
        str | None, typer.Option(metavar="USER", help="The token's user; by default the owner.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a token and print it. It is not shown again.

    Send it as the header `Authorization: Bearer TOKEN`. In an installation without users, the
    owner is created first, with your name.
    """
    scopes = parse_scopes(scope) if scope else None
    days = _days(expires)

    async def work(accounts: Accounts) -> None:
        whose = await accounts.users.find(user) if user else await accounts.ensure_owner(system_user())
        default = scopes_of(whose.role)
        token, secret = await accounts.new_token(
            whose, name=name, scopes=scopes or default, days=days, actor=LOCAL
        )
        if as_json:
            typer.echo(json.dumps({"token": secret, **_to_json(token, whose.name)}))
            return
        typer.echo(secret)
        until = f"expires {_day(token.expires_ms)}" if token.expires_ms else "never expires"
        typer.echo(
            f"{token.id} of {whose.name} ({', '.join(sorted(token.scopes))}) {until}. It is not shown again.",
            err=True,
        )

    with_accounts(work)


@app.command("list")
def list_(
    user: Annotated[str | None, typer.Option(metavar="USER", help="Only the tokens of this user.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Include expired and revoked tokens.")] = False,
    local: Local = False,
    as_json: Json = False,
) -> int | None:
    """List tokens, newest first.

    After a login, those of that server, where only owners see the tokens of others; with --local, those of
    this machine.
    """
    if follows_login(local):
        return ask(lambda client: _list_served(client, user, everything, as_json), as_json=as_json)

    async def work(accounts: Accounts) -> None:
        users = {each.id: each for each in await accounts.users.list()}
        whose = (await accounts.users.find(user)).id if user else None
        names = {str(each.id): each.name for each in users.values()}
        _print_tokens(await accounts.tokens.list(whose), names, everything=everything, as_json=as_json)

    with_accounts(work)
    return None


async def _list_served(client: Client, user: str | None, everything: bool, as_json: bool) -> None:
    _, names = await names_of_users(client)
    whose = [id_ for id_, name in names.items() if user in (id_, name)]
    if user and not whose:
        raise NotFound(f"There is no user '{user}' on the server, or you may not see their tokens.")
    is_owner = (await client.get("/me"))["user"]["role"] == "owner"
    found = [
        Token(**{**each, "scopes": frozenset(each["scopes"])})
        async for each in every(client, "/tokens", everyone=is_owner)
    ]
    chosen = [token for token in found if not user or token.user_id in whose]
    _print_tokens(chosen, names, everything=everything, as_json=as_json)


def _print_tokens(
    tokens: Sequence[Token], names: Mapping[str, str], *, everything: bool, as_json: bool
) -> None:
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    found = [token for token in tokens if everything or token.is_valid(now_ms)]
    if not found and not as_json:
        typer.echo("There are no tokens. Create one: hutch tokens create", err=True)
    for token in found:
        name = names.get(token.user_id, token.user_id)
        if as_json:
            typer.echo(json.dumps(_to_json(token, name)))
            continue
        state = "revoked" if token.revoked_ms else "good" if token.is_valid(now_ms) else "expired"
        typer.echo(
            f"{token.id}  {token.prefix}…  {name:<12}  "
            f"{','.join(sorted(token.scopes)):<16}  {state:<7}  until {_day(token.expires_ms)}  "
            f"used {_day(token.last_used_ms)}  {token.name}"
        )


@app.command()
def revoke(
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="Its id, or its prefix as shown by `list`.")],
    as_json: Json = False,
) -> None:
    """Revoke a token. A running server refuses it within seconds."""

    async def work(accounts: Accounts) -> None:
        revoked = await accounts.revoke_token(token.rstrip("…"), LOCAL)
        typer.echo(
            json.dumps({"id": revoked.id, "revoked_ms": revoked.revoked_ms})
            if as_json
            else f"{revoked.id} is revoked."
        )

    with_accounts(work)


def _days(text: str) -> int | None:
    if text == "never":
        return None
    found = re.fullmatch(r"(\d{1,5})d?", text, re.ASCII)
    if not found or not 1 <= int(found[1]) <= MAX_DAYS:
        raise BadRequest(f"--expires {text[:40]!r} is not a number of days such as 90, nor 'never'.")
    return int(found[1])


def _to_json(token: Token, user: str) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "prefix": token.prefix,
        "user": user,
        "user_id": token.user_id,
        "scopes": sorted(token.scopes),
        "created_ms": token.created_ms,
        "expires_ms": token.expires_ms,
        "last_used_ms": token.last_used_ms,
        "revoked_ms": token.revoked_ms,
    }


def _day(at_ms: int | None) -> str:
    return "never" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d")
