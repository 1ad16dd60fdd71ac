"""What a run did is handed over once more, and what came of it is told: by a server, or here."""

import asyncio
import json
from dataclasses import asdict
from typing import Any

import typer

from hutch.app import runs
from hutch.cli import exits
from hutch.cli.asking import ask, find_session
from hutch.cli.author import signature
from hutch.cli.client import Client
from hutch.cli.delivery_lines import NOTHING, delivery_lines
from hutch.cli.visible import one_line, visible
from hutch.domain.errors import Denied, HutchError, LimitReached, NotFound, Unavailable
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


def propose_here(loaded: Loaded, run_id: str, *, as_json: bool) -> int:
    """The same for a run of the command line, which nobody else has."""
    by = signature(loaded.settings.delivery.author) or runs.AUTHOR
    try:
        change = asyncio.run(runs.changes.propose(loaded, run_id, author=by))
    except (Denied, LimitReached, Unavailable) as error:  # the work is kept
        if as_json:
            typer.echo(exits.error_json(error), err=True)
            return exits.code_of(error)
        for name, text in delivery_lines(run_id, {"outcome": "failed", "reason": str(error)}):
            typer.echo(f"{name}: {visible(text, lines=True)}", err=True)
        return exits.code_of(error)
    if as_json:
        typer.echo(json.dumps(change and asdict(change)))
    elif change is None:
        typer.echo(NOTHING, err=True)
    else:
        _tell(change.id, change.branch, change.title, change.web_url)
    return exits.OK


async def _is_paused(client: Client, run: dict[str, Any]) -> bool:
    return bool((await client.get(f"/sessions/{run['session_id']}"))["state"] == "paused")


async def _show(client: Client, told: dict[str, Any]) -> None:
    change = await client.get(f"/changes/{told['change_id']}")
    _tell(change["id"], change["branch"], change["title"], str(told["url"]))
    if told.get("reason"):
        typer.echo(f"note: {visible(told['reason'])}", err=True)


def _tell(id: str, branch: str, title: str, url: str) -> None:
    typer.echo(f"{id}  {visible(branch)}  {one_line(title, 200)}")
    if url.startswith("http"):
        typer.echo(visible(url))
    typer.echo(f"look at it: hutch changes show {id}")


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
