"""`hutch users`: who may come in, managed on the server's own machine."""

import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from hutch import settings
from hutch.cli.local_accounts import with_accounts
from hutch.cli.server_address import browser_url
from hutch.domain.errors import BadRequest
from hutch.domain.user import ROLES, User, parse_role
from hutch.flows.system_user import system_user
from hutch.flows.users import LOCAL, LOGIN_LINK_S, Accounts

app = typer.Typer(help="Manage who may come in.", no_args_is_help=True, add_completion=False)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Name = Annotated[str, typer.Argument(metavar="USER", help="A name or an id.")]
RoleName = Annotated[str, typer.Argument(metavar="|".join(ROLES), help="What they are here.")]


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List the users, the oldest first."""

    async def work(held: Accounts) -> None:
        found = await held.users.list()
        if not found and not as_json:
            typer.echo("There are no users yet. `hutch users link` makes the owner.", err=True)
        for user in found:
            _print_user(user, as_json=as_json)

    with_accounts(work)


@app.command()
def add(name: Name, role: RoleName = "member", as_json: Json = False) -> None:
    """Add a user. `hutch users link USER` gives them a way in."""
    wanted = parse_role(role)

    async def work(held: Accounts) -> None:
        await held.ensure_owner(system_user())
        _print_user(await held.add_user(name, wanted, LOCAL), as_json=as_json)

    with_accounts(work)


@app.command()
def role(name: Name, role: RoleName, as_json: Json = False) -> None:
    """Change what a user is. Tokens and browsers that are in use follow within seconds."""
    wanted = parse_role(role)

    async def work(held: Accounts) -> None:
        user = await held.users.find(name)
        _print_user(await held.set_role(user.id, wanted, LOCAL), as_json=as_json)

    with_accounts(work)


@app.command()
def disable(
    name: Name,
    undo: Annotated[bool, typer.Option("--undo", help="Let them in again.")] = False,
    as_json: Json = False,
) -> None:
    """Keep a user out: no password, token or browser of theirs works any more."""

    async def work(held: Accounts) -> None:
        user = await held.users.find(name)
        _print_user(await held.set_disabled(user.id, not undo, LOCAL), as_json=as_json)

    with_accounts(work)


@app.command()
def password(name: Name) -> None:
    """Set a user's password, and log them out everywhere.

    It is asked for, or read from standard input.
    """
    if sys.stdin.isatty():
        chosen = typer.prompt("New password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        chosen = sys.stdin.readline().rstrip("\n")
        if not chosen:
            raise BadRequest("There was no password on standard input.")

    async def work(held: Accounts) -> None:
        user = await held.users.find(name)
        await held.set_password(user.id, chosen, LOCAL)
        typer.echo(f"The password of {user.name} is set.", err=True)

    with_accounts(work)


@app.command()
def link(
    name: Annotated[
        str | None, typer.Argument(metavar="USER", help="Whom it logs in; the owner when not given.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print a link that logs a browser in, once; it works for a quarter of an hour."""

    async def work(held: Accounts) -> None:
        user = await held.users.find(name) if name else await held.ensure_owner(system_user())
        if user.disabled:
            raise BadRequest(f"{user.name} is disabled. First: hutch users disable --undo {user.name}")
        made = await held.new_link(user)
        loaded = settings.load()
        url = made.url(browser_url(loaded))
        if as_json:
            typer.echo(json.dumps({"url": url, "user": user.name, "expires_ms": made.link.expires_ms}))
        else:
            typer.echo(url)
            typer.echo(f"It logs in {user.name}, once, within {LOGIN_LINK_S // 60} minutes.", err=True)

    with_accounts(work)


@app.command()
def audit(
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=10_000, help="How many lines.")] = 50,
    as_json: Json = False,
) -> None:
    """Show what was done by whom, the newest first."""

    async def work(held: Accounts) -> None:
        names = {str(user.id): user.name for user in await held.users.list()}
        for entry in await held.audit.list(limit=count):
            if as_json:
                typer.echo(json.dumps(asdict(entry)))
                continue
            when = datetime.fromtimestamp(entry.at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
            who = names.get(entry.user_id, entry.user_id) or "-"
            said = f"{when}  {who:<12}  {entry.action:<20}  {'ok' if entry.ok else 'REFUSED':<7}"
            typer.echo(f"{said}  {entry.address or '-':<15}  {entry.object}  {entry.detail}".rstrip())

    with_accounts(work)


def _print_user(user: User, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(asdict(user)))
    else:
        typer.echo(f"{user.id}  {user.role:<9}  {'disabled' if user.disabled else 'active':<8}  {user.name}")
