"""What a run did is handed over once more, and what came of it is told: by a server, or here."""

import asyncio
import json
from typing import Any

import typer

from hutch.app import records
from hutch.cli import exit_codes
from hutch.cli.client import Client
from hutch.cli.render.delivery import NOTHING, delivery_lines
from hutch.cli.run_session import Where, open_and
from hutch.cli.server_requests import find_session
from hutch.cli.session_client import SessionClient
from hutch.domain.errors import HutchError, NotFound
from hutch.flows.runs import find_run_id
from hutch.settings import LoadedSettings
from hutch.store.runs import Runs
from hutch.system.terminal_text import one_line, visible

POLL_INTERVAL_S = 0.2


def named_run(loaded: LoadedSettings, name: str) -> tuple[str, Where]:
    """The run that a name means, and where it is: in this installation, or on a server elsewhere."""
    try:
        return asyncio.run(_here(loaded, name)), "anywhere"
    except NotFound as unknown:
        return asyncio.run(_elsewhere(name, unknown)), "server"


async def _here(loaded: LoadedSettings, name: str) -> str:
    async with records.event_log(loaded.paths) as log:
        return (await Runs(log).get(await find_run_id(log, name))).id


def hand_over(run_id: str, where: Where, *, failing: bool, as_json: bool) -> int:
    """Have what a run did delivered, and wait for that; the exit code says how it ended."""

    async def work(sessions: SessionClient) -> int:
        run = await sessions.deliver(run_id, failing=failing)
        while run["state"] in ("queued", "running"):
            if run["state"] == "queued" and (await sessions.get(run["session_id"]))["state"] == "paused":
                break
            await asyncio.sleep(POLL_INTERVAL_S)
            run = await sessions.get_run(run_id)
        await sessions.settle(run_id)
        told = run["delivered"] or {}
        if as_json:
            typer.echo(json.dumps(run))
        elif run["state"] in ("queued", "held"):
            typer.echo(f"The session {run['session_id']} is paused: it is delivered when that goes on.")
        elif told.get("outcome") == "proposed":
            _show(await sessions.get_change(told["change_id"]), told)
        elif told.get("outcome") == "nothing":
            why = str(told.get("reason") or "")
            typer.echo(NOTHING if why in ("", "Nothing was changed.") else visible(why), err=True)
        else:
            for name, text in delivery_lines(run_id, told):
                typer.echo(f"{name}: {visible(text, lines=True)}", err=True)
        if told.get("outcome") != "failed" or run["state"] != "ended":
            return exit_codes.OK
        return exit_codes.NO if told.get("failing") else exit_codes.UNAVAILABLE

    return open_and(work, where, as_json)


def _show(change: dict[str, Any], told: dict[str, Any]) -> None:
    typer.echo(f"{change['id']}  {visible(change['branch'])}  {one_line(change['title'], 200)}")
    if str(told["url"]).startswith("http"):
        typer.echo(visible(told["url"]))
    typer.echo(f"look at it: hutch changes show {change['id']}")
    if told.get("reason"):
        typer.echo(f"note: {visible(told['reason'])}", err=True)


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
