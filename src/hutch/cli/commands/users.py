"""`hutch users`: manage users on the server's own machine."""

import json
import sys
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Annotated

import typer

from hutch import settings
from hutch.cli.api_client import Client
from hutch.cli.commands.preferences_and_model_keys import model_key_command, preferences_command
from hutch.cli.commands.user_erasure import erase_command
from hutch.cli.local_only_notice import follows_login
from hutch.cli.local_users_and_tokens import with_accounts
from hutch.cli.server_address_and_token import browser_url
from hutch.cli.server_requests import Local, ask, every
from hutch.domain.errors import BadRequest
from hutch.domain.user import ROLES, SHARE_SCOPES, ShareRole, ShareScope, User, parse_role
from hutch.flows.user_accounts import LOCAL, LOGIN_LINK_S, MAX_INVITE_S, Accounts
from hutch.flows.user_running_hutch import system_user

app = typer.Typer(help="Manage users.", no_args_is_help=True, add_completion=False)

DAY_S = 24 * 3600
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Name = Annotated[str, typer.Argument(metavar="USER", help="A name or an id.")]
RoleName = Annotated[str, typer.Argument(metavar="|".join(ROLES), help="The user's role.")]


@app.command("list")
def list_(local: Local = False, as_json: Json = False) -> int | None:
    """List users, oldest first.

    After a login, those of that server; with --local, those of this machine.
    """

    async def served(client: Client) -> None:
        async for each in every(client, "/users"):
            _print_user(User(**each), as_json=as_json)

    if follows_login(local):
        return ask(served, as_json=as_json)

    async def work(accounts: Accounts) -> None:
        found = await accounts.users.list()
        if not found and not as_json:
            typer.echo("There are no users yet. `hutch users link` creates the owner.", err=True)
        for user in found:
            _print_user(user, as_json=as_json)

    with_accounts(work)
    return None


@app.command()
def add(name: Name, role: RoleName = "member", as_json: Json = False) -> None:
    """Add a user. `hutch users link USER` prints a login link for them."""
    new_role = parse_role(role)

    async def work(accounts: Accounts) -> None:
        await accounts.ensure_owner(system_user())
        _print_user(await accounts.add_user(name, new_role, LOCAL), as_json=as_json)

    with_accounts(work)


@app.command()
def role(name: Name, role: RoleName, as_json: Json = False) -> None:
    """Change a user's role. It applies to their tokens and browsers within seconds."""
    new_role = parse_role(role)

    async def work(accounts: Accounts) -> None:
        user = await accounts.users.find(name)
        _print_user(await accounts.set_role(user.id, new_role, LOCAL), as_json=as_json)

    with_accounts(work)


@app.command()
def disable(
    name: Name,
    undo: Annotated[bool, typer.Option("--undo", help="Enable the user again.")] = False,
    as_json: Json = False,
) -> None:
    """Disable a user. Passwords, tokens and browser sessions stop working."""

    async def work(accounts: Accounts) -> None:
        user = await accounts.users.find(name)
        _print_user(await accounts.set_disabled(user.id, not undo, LOCAL), as_json=as_json)

    with_accounts(work)


@app.command()
def password(name: Name) -> None:
    """Set a user's password, and log them out everywhere.

    Prompts for it, or reads it from standard input.
    """
    if sys.stdin.isatty():
        chosen = typer.prompt("New password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        chosen = sys.stdin.readline().rstrip("\n")
        if not chosen:
            raise BadRequest("Standard input contains no password.")

    async def work(accounts: Accounts) -> None:
        user = await accounts.users.find(name)
        await accounts.set_password(user.id, chosen, LOCAL)
        typer.echo(f"The password of {user.name} is set.", err=True)

    with_accounts(work)


@app.command()
def link(
    name: Annotated[
        str | None, typer.Argument(metavar="USER", help="The user to log in; by default the owner.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print a one-time login link. It works once, for 15 minutes."""

    async def work(accounts: Accounts) -> None:
        user = await accounts.users.find(name) if name else await accounts.ensure_owner(system_user())
        if user.disabled:
            raise BadRequest(f"{user.name} is disabled. Enable first: hutch users disable --undo {user.name}")
        made = await accounts.new_link(user)
        loaded = settings.load()
        url = made.url(browser_url(loaded))
        if as_json:
            typer.echo(json.dumps({"url": url, "user": user.name, "expires_ms": made.link.expires_ms}))
        else:
            typer.echo(url)
            typer.echo(f"This link logs in {user.name}, once, within {LOGIN_LINK_S // 60} minutes.", err=True)

    with_accounts(work)


@app.command()
def invite(
    role: RoleName = "candidate",
    session: Annotated[
        list[str] | None,
        typer.Option(metavar="SESSION", help="The id of a session to share; may be repeated."),
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="|".join(SHARE_SCOPES),
            help="Limit the work in these sessions to this, besides reading; may be repeated.",
        ),
    ] = None,
    hours: Annotated[
        int | None, typer.Option(min=1, max=MAX_INVITE_S // 3600, help="Hours after which the access ends.")
    ] = None,
    days: Annotated[
        int, typer.Option(min=1, max=MAX_INVITE_S // DAY_S, help="Days in which it can be accepted.")
    ] = 7,
    as_json: Json = False,
) -> None:
    """Print a link by which one person becomes a user.

    It can share sessions with them. A candidate can do only what the invitation names.
    """
    new_role, sessions = parse_role(role), list(dict.fromkeys(session or ()))
    scopes = _scopes(scope or [])
    in_session: ShareRole | None = None
    if sessions:
        in_session = "member" if new_role == "owner" else new_role

    async def work(accounts: Accounts) -> None:
        owner = await accounts.ensure_owner(system_user())
        made = await accounts.invite(
            role=new_role,
            session_id=sessions[0] if sessions else None,
            more_sessions=sessions[1:],
            share_role=in_session,
            share_scopes=scopes,
            access_s=None if hours is None else hours * 3600,
            life_s=days * DAY_S,
            actor=replace(LOCAL, user_id=owner.id),
        )
        url = made.url(browser_url(settings.load()))
        if as_json:
            typer.echo(json.dumps({"id": made.link.id, "url": url, "expires_ms": made.link.expires_ms}))
            return
        typer.echo(url)
        named = f" with access to {', '.join(sessions)}" if sessions else ""
        typer.echo(f"This link creates one {new_role}{named}, within {days} days.", err=True)

    with_accounts(work)


def _scopes(names: list[str]) -> list[ShareScope]:
    if wrong := next((each for each in names if each not in SHARE_SCOPES), None):
        raise BadRequest(f"There is no scope {wrong[:40]!r}. Choose among {', '.join(SHARE_SCOPES)}.")
    return [scope for scope in SHARE_SCOPES if scope in names]


@app.command()
def audit(
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=10_000, help="How many lines.")] = 50,
    as_json: Json = False,
) -> None:
    """Show the audit log, newest first."""

    async def work(accounts: Accounts) -> None:
        names = {str(user.id): user.name for user in await accounts.users.list()}
        for entry in await accounts.audit.list(limit=count):
            if as_json:
                typer.echo(json.dumps(asdict(entry)))
                continue
            when = datetime.fromtimestamp(entry.at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
            user = names.get(entry.user_id, entry.user_id) or "-"
            start = f"{when}  {user:<12}  {entry.action:<20}  {'ok' if entry.ok else 'REFUSED':<7}"
            typer.echo(f"{start}  {entry.address or '-':<15}  {entry.object}  {entry.detail}".rstrip())

    with_accounts(work)


app.command("preferences")(preferences_command)
app.command("model-key")(model_key_command)
app.command("erase")(erase_command)


def _print_user(user: User, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(asdict(user)))
    else:
        typer.echo(f"{user.id}  {user.role:<9}  {'disabled' if user.disabled else 'active':<8}  {user.name}")
