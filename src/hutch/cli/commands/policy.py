"""`hutch policy`: the rules that owners bind to roles, repositories and categories."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer

from hutch import settings
from hutch.app.event_log import event_log
from hutch.app.owner_policies import policies_of
from hutch.domain.user import ROLES, parse_role
from hutch.flows.personas import find_persona
from hutch.flows.policies.applicable_policies import Policies
from hutch.flows.policies.policy import PolicyEntry, entry_json
from hutch.flows.policies.policy_explanation import Explanation, explain
from hutch.flows.user_accounts import LOCAL, Accounts
from hutch.flows.user_running_hutch import system_user
from hutch.system.terminal_safe_text import visible

app = typer.Typer(
    help="List, check, add and remove policies of owners.", no_args_is_help=True, add_completion=False
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Texts = list[str] | None


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List all policies: those of the settings, then those that were added."""

    async def work() -> tuple[PolicyEntry, ...]:
        async with _policies() as (policies, _):
            return await policies.entries()

    found = asyncio.run(work())
    if as_json:
        typer.echo(json.dumps([{**entry_json(each), "source": each.source} for each in found]))
        return
    for each in found:
        typer.echo(visible(f"{each.name}: {_bound_to(each)}: {_content(each)}  # {each.source}"))
    if not found:
        typer.echo("There are no policies. See docs/policies.md for examples.", err=True)


@app.command()
def check(
    call: Annotated[
        list[str],
        typer.Argument(metavar="CALL", help="Such as 'bash git push' or 'network example.com'."),
    ],
    role: Annotated[str, typer.Option(metavar="|".join(ROLES), help="The role of the user.")] = "member",
    repo: Annotated[str, typer.Option(metavar="ADDRESS", help="The repository of the session.")] = "",
    persona: Annotated[str, typer.Option(metavar="NAME", help="Consider the rules of a persona, too.")] = "",
    as_json: Json = False,
) -> None:
    """Explain what would be decided about a call, and why."""
    whose = parse_role(role)

    async def work() -> Explanation:
        async with _policies() as (policies, loaded):
            named = find_persona(persona, loaded.paths.personas) if persona else None
            return await explain(policies, " ".join(call), roles=(whose,), repository=repo, persona=named)

    found = asyncio.run(work())
    if as_json:
        typer.echo(json.dumps(asdict(found)))
        return
    where = f", {found.source}" if found.source else ""
    typer.echo(visible(f"{found.action}: {found.rule}{where}"))
    if found.action == "ask":
        typer.echo(f"  may answer: {', '.join(found.approvers) or 'everyone who works in the session'}")
    for each in found.considered:
        typer.echo(visible(f"  {each.source}: {each.action} ({each.rule})"))
    if not found.considered:
        typer.echo("  No policy binds this role in this repository.")


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name of your choice.")],
    rule: Annotated[
        Texts, typer.Option(metavar="RULE", help="Such as 'ask bash git push'; may be repeated.")
    ] = None,
    role: Annotated[Texts, typer.Option(metavar="ROLE", help="A role that it binds; all by default.")] = None,
    repo: Annotated[
        Texts, typer.Option(metavar="PATTERN", help="Repositories that it binds: 'github.com/acme/pay-*'.")
    ] = None,
    category: Annotated[
        Texts, typer.Option(metavar="NAME", help="A category of the settings that it binds.")
    ] = None,
    net: Annotated[
        Texts, typer.Option(metavar="HOST", help="Only this host may be reached; may be repeated.")
    ] = None,
    no_network: Annotated[bool, typer.Option("--no-network", help="No host may be reached.")] = False,
    default: Annotated[
        str, typer.Option(metavar="allow|ask|deny", help="The decision where no rule matches.")
    ] = "allow",
    approver: Annotated[
        Texts, typer.Option(metavar="ROLE", help="A role that may answer; by default owner and member.")
    ] = None,
    saved_approvals: Annotated[
        bool, typer.Option("--saved-approvals", help="Permanent approvals answer where it asks.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Add a policy. It is effective within a second, also on a running server."""
    fields: dict[str, Any] = {
        "name": name,
        "roles": role or [],
        "repositories": repo or [],
        "categories": category or [],
        "default": default,
        "rules": rule or [],
        "network": [] if no_network else net,
        "saved_approvals": saved_approvals,
        **({"approvers": approver} if approver else {}),
    }

    async def work() -> PolicyEntry:
        async with _policies() as (policies, _):
            owner = await Accounts(policies.rows).ensure_owner(system_user())
            entry = await policies.add(fields, created_by=owner.id)
            await Accounts(policies.rows).note(LOCAL, "policy.added", entry.name)
            return entry

    entry = asyncio.run(work())
    if as_json:
        typer.echo(json.dumps({**entry_json(entry), "source": entry.source}))
    else:
        typer.echo(visible(f"{entry.name}: {_bound_to(entry)}: {_content(entry)}"))


@app.command()
def rm(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As listed.")], as_json: Json = False
) -> None:
    """Remove a policy that was added. Those of the settings are removed there."""

    async def work() -> None:
        async with _policies() as (policies, _):
            await policies.remove(name)
            await Accounts(policies.rows).note(LOCAL, "policy.removed", name)

    asyncio.run(work())
    typer.echo(json.dumps({"removed": name}) if as_json else f"The policy {name} is removed.")


@asynccontextmanager
async def _policies() -> AsyncIterator[tuple[Policies, settings.LoadedSettings]]:
    loaded = settings.load()
    async with event_log(loaded) as log:
        yield policies_of(loaded, log), loaded


def _bound_to(entry: PolicyEntry) -> str:
    parts = [
        ", ".join(entry.roles) or "everyone",
        *(f"in {each}" for each in entry.repositories),
        *(f"in {each} repositories" for each in entry.categories),
    ]
    return " ".join(parts)


def _content(entry: PolicyEntry) -> str:
    parts = [str(rule) for rule in entry.rules]
    if entry.default != "allow":
        parts.append(f"else {entry.default}")
    if entry.network is not None:
        parts.append(f"network only {', '.join(entry.network)}" if entry.network else "no network")
    return "; ".join(parts)
