"""`hutch approvals`: list and withdraw permanent approvals."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import typer

from hutch import settings
from hutch.agent.saved_approvals import SavedApprovals, parse_approval, to_text
from hutch.agent.tool_call_rules import Rule
from hutch.app.event_log import event_log
from hutch.domain.errors import BadRequest
from hutch.flows.legacy_approval_import import import_approvals
from hutch.flows.user_accounts import Accounts
from hutch.flows.user_running_hutch import system_user
from hutch.system.terminal_safe_text import printable

app = typer.Typer(help="List and withdraw permanent approvals.", no_args_is_help=True, add_completion=False)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


User = Annotated[
    str, typer.Option("--user", metavar="NAME", help="The approvals of this user of the local server.")
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
        typer.echo("There are no permanent approvals. Answer 'always' when a run asks to add one.", err=True)


@app.command()
def rm(
    rule: Annotated[
        list[str] | None, typer.Argument(metavar="RULE", help="A rule as listed, such as: bash git push.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Withdraw every rule.")] = False,
    user: User = "",
) -> None:
    """Withdraw a permanent approval: runs ask again."""
    if bool(rule) == everything:
        raise BadRequest("Name a rule, or use --all. `hutch approvals list` lists the rules.")
    named = None if everything else parse_approval(" ".join(rule or ()))
    for each in asyncio.run(_withdraw(user, named)):
        typer.echo(f"Withdrawn: '{to_text(each)}'. Runs ask again.", err=True)


async def _list(user: str) -> tuple[Rule, ...]:
    async with _approvals(user) as approvals:
        return await approvals.rules()


async def _withdraw(user: str, named: Rule | None) -> tuple[Rule, ...]:
    async with _approvals(user) as approvals:
        rules = (named,) if named else await approvals.rules()
        await approvals.withdraw(rules)
        return rules


@asynccontextmanager
async def _approvals(user: str) -> AsyncIterator[SavedApprovals]:
    """The approvals of the user who runs the command, or of another user of the local server."""
    loaded = settings.load()
    async with event_log(loaded) as log:
        accounts = Accounts(log)
        found = await (accounts.users.find(user) if user else accounts.ensure_owner(system_user()))
        for problem in await import_approvals(log, loaded.paths.approvals):
            typer.echo(f"warning: {problem}", err=True)
        yield SavedApprovals(log, found.id)
