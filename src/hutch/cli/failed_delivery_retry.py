"""Delivers a run's work again, by a server or in this process, and prints the result."""

import asyncio
import json
from typing import Any

import typer

from hutch.app import event_log
from hutch.cli import exit_codes
from hutch.cli.api_client import Client
from hutch.cli.render.delivery_result import NOTHING, delivery_lines, next_steps, page_of
from hutch.cli.run_lifecycle import Where, open_and
from hutch.cli.server_requests import find_session
from hutch.cli.session_client import SessionClient
from hutch.domain.errors import HutchError, NotFound
from hutch.flows.run_and_log_lookup import find_run_id
from hutch.settings import LoadedSettings
from hutch.store.run_queue import Runs
from hutch.system.terminal_safe_text import one_line, visible

POLL_INTERVAL_S = 0.2


def named_run(loaded: LoadedSettings, name: str) -> tuple[str, Where]:
    """Find a run by name, and its location: this installation or a remote server."""
    try:
        return asyncio.run(_find_in_database(loaded, name)), "anywhere"
    except NotFound as unknown:
        return asyncio.run(_elsewhere(name, unknown)), "server"


async def _find_in_database(loaded: LoadedSettings, name: str) -> str:
    async with event_log.event_log(loaded) as log:
        return (await Runs(log).get(await find_run_id(log, name))).id


def redeliver(run_id: str, where: Where, *, failing: bool, as_json: bool) -> int:
    """Deliver a run's work and wait for the result; return the exit code."""

    async def work(sessions: SessionClient) -> int:
        run = await sessions.deliver(run_id, failing=failing)
        while run["state"] in ("queued", "running"):
            if run["state"] == "queued" and (await sessions.get(run["session_id"]))["state"] == "paused":
                break
            await asyncio.sleep(POLL_INTERVAL_S)
            run = await sessions.get_run(run_id)
        await sessions.settle(run_id)
        delivery = run["delivered"] or {}
        if as_json:
            typer.echo(json.dumps(run))
        elif run["state"] in ("queued", "held"):
            typer.echo(f"Session {run['session_id']} is paused. Delivery happens when it is resumed.")
        elif delivery.get("outcome") == "proposed":
            _show(await sessions.get_change(delivery["change_id"]), delivery)
        elif delivery.get("outcome") == "nothing":
            why = str(delivery.get("reason") or "")
            typer.echo(NOTHING if why in ("", "Nothing was changed.") else visible(why), err=True)
        else:
            for name, text in delivery_lines(run_id, delivery):
                typer.echo(f"{name}: {visible(text, lines=True)}", err=True)
        if delivery.get("outcome") != "failed" or run["state"] != "ended":
            return exit_codes.OK
        return exit_codes.NO if delivery.get("failing") else exit_codes.UNAVAILABLE

    return open_and(work, where, as_json)


def _show(change: dict[str, Any], delivery: dict[str, Any]) -> None:
    typer.echo(f"{change['id']}  {visible(change['branch'])}  {one_line(change['title'], 200)}")
    if page := page_of(delivery):
        typer.echo(visible(page))
    for name, command in next_steps({**change, "url": delivery["url"]}):
        typer.echo(visible(f"{name}: {command}"))
    if delivery.get("reason"):
        typer.echo(f"note: {visible(delivery['reason'])}", err=True)


async def _elsewhere(name: str, unknown: NotFound) -> str:
    """Find a run on a remote server."""
    try:
        async with Client() as client:
            if name.startswith("run_"):
                return str((await client.get(f"/runs/{name}"))["id"])
            found = await find_session(client, name)
            listed = (await client.get(f"/sessions/{found['id']}/runs", limit=1))["items"]
    except HutchError:  # no server, or it does not know the run either
        raise unknown from None
    if not listed:
        raise NotFound(f"The session {found['id']} has no run yet.")
    return str(listed[0]["id"])
