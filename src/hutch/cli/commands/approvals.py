"""`hutch approvals`: what you have allowed always, and how to withdraw it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import typer

from hutch import settings
from hutch.agent.policy import Rule
from hutch.agent.saved_approvals import SavedApprovals, parse_approval, to_text
from hutch.app.records import event_log
from hutch.domain.errors import BadRequest
from hutch.flows.approval_files import import_approvals
from hutch.flows.system_user import system_user
from hutch.flows.users import Accounts
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
    rules = asyncio.run(_list(user))
    if as_json:
        typer.echo(json.dumps([{"tool": rule.tool, "pattern": rule.pattern} for rule in rules]))
        return
    for rule in rules:
        typer.echo(printable(to_text(rule)))
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
    named = None if everything else parse_approval(" ".join(rule or ()))
    for each in asyncio.run(_withdraw(user, named)):
        typer.echo(f"'{to_text(each)}' is asked about again.", err=True)


async def _list(user: str) -> tuple[Rule, ...]:
    async with _kept(user) as kept:
        return await kept.rules()


async def _withdraw(user: str, named: Rule | None) -> tuple[Rule, ...]:
    async with _kept(user) as kept:
        gone = (named,) if named else await kept.rules()
        await kept.withdraw(gone)
        return gone


@asynccontextmanager
async def _kept(user: str) -> AsyncIterator[SavedApprovals]:
    """Of the user of this machine; or of another user of the server whose data is here."""
    paths = settings.find_paths()
    async with event_log(paths) as log:
        accounts = Accounts(log)
        found = await (accounts.users.find(user) if user else accounts.ensure_owner(system_user()))
        for problem in await import_approvals(log, paths.approvals):
            typer.echo(f"warning: {problem}", err=True)
        yield SavedApprovals(log, found.id)
