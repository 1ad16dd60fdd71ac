"""What a run of a server did is handed over once more, and what came of it is told."""

import asyncio
import json
from typing import Any

import typer

from hutch.app import runs
from hutch.cli import exits
from hutch.cli.asking import ask, find_session
from hutch.cli.client import Client
from hutch.cli.delivery_lines import delivery_lines
from hutch.cli.visible import one_line, visible
from hutch.domain.errors import HutchError, NotFound
from hutch.settings import Loaded

LOOK_S = 0.2


def named_run(loaded: Loaded, name: str) -> tuple[str, bool]:
    """The run that a name means, and whether a server has it; the others are of the command line."""
    try:
        return asyncio.run(runs.changes.run_to_deliver(loaded, name))
    except NotFound as unknown:
        return asyncio.run(_elsewhere(name, unknown)), True


def hand_over(run_id: str, *, failing: bool, as_json: bool) -> int:
    """Have a server deliver what a run did, and wait for that; the exit code says how it ended."""

    async def work(client: Client) -> int:
        run = await client.post(f"/runs/{run_id}/deliver", {"failing": failing})
        while run["state"] in ("queued", "running"):
            if run["state"] == "queued" and await _is_paused(client, run):
                break
            await asyncio.sleep(LOOK_S)
            run = await client.get(f"/runs/{run_id}")
        told = run["delivered"] or {}
        if as_json:
            typer.echo(json.dumps(run))
        elif run["state"] in ("queued", "held"):
            typer.echo(f"The session {run['session_id']} is paused: it is delivered when that goes on.")
        elif told.get("outcome") == "proposed":
            await _show(client, told)
        else:
            for name, text in delivery_lines(run_id, told):
                typer.echo(f"{name}: {visible(text)}", err=True)
        if told.get("outcome") != "failed" or run["state"] != "ended":
            return exits.OK
        return exits.NO if told.get("failing") else exits.UNAVAILABLE

    return ask(work, as_json=as_json)


async def _is_paused(client: Client, run: dict[str, Any]) -> bool:
    return bool((await client.get(f"/sessions/{run['session_id']}"))["state"] == "paused")


async def _show(client: Client, told: dict[str, Any]) -> None:
    change = await client.get(f"/changes/{told['change_id']}")
    typer.echo(f"{change['id']}  {visible(change['branch'])}  {one_line(change['title'], 200)}")
    if str(told["url"]).startswith("http"):
        typer.echo(visible(told["url"]))
    typer.echo(f"look at it: hutch changes show {change['id']}")


async def _elsewhere(name: str, unknown: NotFound) -> str:
    """The same, of a server that keeps its runs on another machine."""
    try:
        async with Client() as client:
            if name.startswith("run_"):
                return str((await client.get(f"/runs/{name}"))["id"])
            found = await find_session(client, name)
            listed = (await client.get(f"/sessions/{found['id']}/runs", limit=1))["items"]
    except HutchError:  # there is none, or it does not know it either
        raise unknown from None
    if not listed:
        raise NotFound(f"The session {found['id']} has no run yet.")
    return str(listed[0]["id"])
