"""`hutch usage`: usage totals of the server in use, or of the local database, also while a server uses it."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, cast, get_args

import typer

from hutch import settings
from hutch.app import configure_logs, event_log
from hutch.cli import exit_codes
from hutch.cli.api_client import Client
from hutch.cli.local_only_notice import follows_login
from hutch.cli.server_requests import Json, Local, every, names_of_users, report_errors
from hutch.domain.errors import BadRequest
from hutch.store.usage_totals import Usage, UsageGroup, UsageTotal
from hutch.store.users import Users
from hutch.system.terminal_safe_text import visible

MAX_ROWS = 10_000
HEADINGS = ("runs", "turns", "input", "cached", "output", "cost", "tools", "errors", "time")


@report_errors
def usage_command(
    by: Annotated[
        str, typer.Option(metavar="|".join(get_args(UsageGroup)), help="How to group the totals.")
    ] = "day",
    first: Annotated[
        datetime | None,
        typer.Option("--from", formats=["%Y-%m-%d"], metavar="DAY", help="The first day, in UTC."),
    ] = None,
    last: Annotated[
        datetime | None,
        typer.Option("--to", formats=["%Y-%m-%d"], metavar="DAY", help="The last day, in UTC."),
    ] = None,
    local: Local = False,
    as_json: Json = False,
) -> int:
    """Show the usage of sessions: runs, tokens, cost, tools and time.

    After a login, those of that server that you may see; with --local, those of this machine.
    """
    if by not in get_args(UsageGroup):
        raise BadRequest(f"--by {by[:40]!r} is not one of {', '.join(get_args(UsageGroup))}.")
    days = (first.strftime("%Y-%m-%d") if first else "", last.strftime("%Y-%m-%d") if last else "")
    read = _read_served if follows_login(local) else _read
    found = asyncio.run(read(cast(UsageGroup, by), *days))
    if as_json:
        for each in found:
            typer.echo(json.dumps(asdict(each)))
    elif found:
        typer.echo(_table(by, found))
    else:
        typer.echo("There is no usage yet. Start with: hutch run PROMPT --repo DIR", err=True)
    return exit_codes.OK


async def _read(by: UsageGroup, first_day: str, last_day: str) -> Sequence[UsageTotal]:
    loaded = settings.load()
    configure_logs(loaded)
    async with event_log.event_log(loaded) as log:
        await log.usage_projector().catch_up()
        found = await Usage(log).page(by, first_day=first_day, last_day=last_day, limit=MAX_ROWS)
        if by != "user":
            return found
        names = {str(user.id): user.name for user in await Users(log).list()}
        return [_named(each, names) for each in found]


async def _read_served(by: UsageGroup, first_day: str, last_day: str) -> Sequence[UsageTotal]:
    days = {name: day for name, day in (("from", first_day), ("to", last_day)) if day}
    async with Client() as client:
        found = [UsageTotal(**each) async for each in every(client, "/usage", group=by, **days)]
        names = (await names_of_users(client))[1] if by == "user" else {}
    return [_named(each, names) for each in found]


def _named(total: UsageTotal, names: dict[str, str]) -> UsageTotal:
    return UsageTotal(**{**asdict(total), "key": names.get(total.key, total.key)})


def _table(by: str, found: Sequence[UsageTotal]) -> str:
    rows = [(by, *HEADINGS), *map(_cells, found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for key, *cells in rows:
        right = (f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
        lines.append("  ".join((f"{key:<{widths[0]}}", *right)))
    return "\n".join(lines)


def _cells(total: UsageTotal) -> tuple[str, ...]:
    cost = f"${total.cost_usd:.4f}{' + ?' if total.unpriced else ''}"
    counts = (total.runs, total.turns, total.input_tokens, total.cached_tokens, total.output_tokens)
    tools = (total.tool_calls, total.tool_errors)
    return (
        visible(total.key) or "(unknown)",
        *(f"{count:,}" for count in counts),
        cost,
        *(f"{count:,}" for count in tools),
        f"{total.duration_s:,.0f}s",
    )
