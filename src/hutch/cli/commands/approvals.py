"""`hutch approvals`: what you have allowed always, and how to withdraw it."""

import asyncio
import json
from typing import Annotated

import typer

from hutch import settings
from hutch.agent.kept import KeptApprovals, describe
from hutch.app.accounts import accounts
from hutch.app.approvals import kept_approvals, parse
from hutch.domain.errors import BadRequest
from hutch.system.terminal_text import printable

app = typer.Typer(
    help="List and withdraw what you have allowed always.", no_args_is_help=True, add_completion=False
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


User = Annotated[
    str, typer.Option("--user", metavar="NAME", help="What this user of the server here has allowed.")
]


@app.command("list")
def list_(as_json: Json = False, user: User = "") -> None:
    """List what agents may do without asking you, in every repository."""
    rules = _kept(user).rules()
    if as_json:
        typer.echo(json.dumps([{"tool": rule.tool, "pattern": rule.pattern} for rule in rules]))
        return
    for rule in rules:
        typer.echo(printable(describe(rule)))
    if not rules:
        typer.echo("Nothing is allowed always. Answer a question of a run with 'a' for that.", err=True)


@app.command()
def rm(
    rule: Annotated[
        list[str] | None, typer.Argument(metavar="RULE", help="As the list has it: bash git push.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    user: User = "",
) -> None:
    """Withdraw what was allowed: it is asked about again."""
    if bool(rule) == everything:
        raise BadRequest("Name a rule, or give --all. `hutch approvals list` shows those there are.")
    kept = _kept(user)
    gone = kept.rules() if everything else (parse(" ".join(rule or ())),)
    kept.withdraw(gone)
    for each in gone:
        typer.echo(f"'{describe(each)}' is asked about again.", err=True)


def _kept(user: str) -> KeptApprovals:
    """Of who runs this; or of a user of the server whose data is on this machine."""
    paths = settings.find_paths()

    async def find() -> str:
        async with accounts(paths) as held:
            return (await held.users.find(user)).id

    return kept_approvals(paths, asyncio.run(find()) if user else "")
