"""`hutch status`: whether the server is running, where, and how busy it is."""

import asyncio
import json
import ssl
import time
from typing import Annotated, Any

import httpx2
import typer

from hutch import settings
from hutch.cli import exit_codes
from hutch.cli.api_client import Client
from hutch.cli.local_only_notice import other_server
from hutch.cli.render.byte_size import byte_size
from hutch.cli.server_address_and_token import Address, no_local_token
from hutch.domain.errors import Denied, HutchError
from hutch.settings import Paths
from hutch.system.server_announcement_and_discovery import RunningServer, find_server, local_token

TIMEOUT_S = 5.0
NO_ANSWER = "It does not respond: {} Check its log: hutch logs"


def status_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> int:
    """Show whether the server is running, where, and how busy it is. Exits with 3 when none is running.

    After `hutch login` this is the server that you are logged in to.
    """
    if address := other_server():
        return _show_other(address, as_json)
    paths = settings.find_paths()
    running = find_server(paths.server_files)
    if running is None:
        typer.echo(json.dumps({"running": False}) if as_json else "No server is running. Start one: hutch up")
        return exit_codes.NO
    status, problem = _ask(running, paths)
    uptime_s = max(0, round(time.time() - running.started_ms / 1000))
    if as_json:
        here = {"running": True, "url": running.url, "pid": running.pid, "version": running.version}
        also = {"problem": problem} if problem else {}
        typer.echo(json.dumps({**here, "uptime_s": uptime_s, **status, **also}))
        return exit_codes.NO if problem else exit_codes.OK
    typer.echo(
        f"Hutch {running.version} is running at {running.url} (process {running.pid}) for {_time(uptime_s)}."
    )
    if problem:
        typer.echo(problem, err=True)
        return exit_codes.NO
    _show(status)
    return exit_codes.OK


def _show_other(address: Address, as_json: bool) -> int:
    """Show the status of a server on another machine."""
    try:
        user, status = asyncio.run(_ask_other(address))
    except HutchError as error:
        row = {"running": False, "url": address.url, "problem": str(error)}
        typer.echo(json.dumps(row) if as_json else str(error), err=not as_json)
        return exit_codes.code_of(error) if isinstance(error, Denied) else exit_codes.NO
    uptime_s = max(0, round(time.time() - status["started_ms"] / 1000)) if status else 0
    if as_json:
        more = {**status, "uptime_s": uptime_s} if status else {}
        typer.echo(json.dumps({"running": True, "url": address.url, "user": user, **more}))
        return exit_codes.OK
    if not status:
        typer.echo(f"A server is running at {address.url}. You are {user}; only owners see how busy it is.")
        return exit_codes.OK
    typer.echo(
        f"Hutch {status['version']} is running at {address.url} for {_time(uptime_s)}. You are {user}."
    )
    _show(status)
    return exit_codes.OK


async def _ask_other(address: Address) -> tuple[str, dict[str, Any]]:
    """The name of the user there, and the status of the server; none if the user may not see it."""
    async with Client(lambda: address) as client:
        me = (await client.request("GET", "/me", again=False)).json()
        user = str(me["user"]["name"])
        try:
            return user, dict(await client.get("/status"))
        except Denied:
            return user, {}


def _ask(running: RunningServer, paths: Paths) -> tuple[dict[str, Any], str]:
    """The server's status, or the reason why there is none."""
    trusted: ssl.SSLContext | bool = False  # without TLS there is no certificate to verify
    if running.certificate:
        # This is the known local process; its certificate may be for another host name.
        trusted = ssl.create_default_context(cafile=running.certificate)
        trusted.check_hostname = False
    token = local_token(paths.server_files)
    if not token:
        return {}, no_local_token(running.url, paths)
    try:
        answer = httpx2.get(
            f"{running.url}/api/v1/status",
            headers={"Authorization": f"Bearer {token}"},
            timeout=TIMEOUT_S,
            verify=trusted,
            trust_env=False,
        )
        body = answer.json()
    except (httpx2.HTTPError, ValueError, OSError) as error:
        return {}, NO_ANSWER.format(f"{error or type(error).__name__}.")
    if answer.status_code != 200:
        return {}, NO_ANSWER.format(body.get("detail", answer.status_code))
    return body, ""


def _show(status: dict[str, Any]) -> None:
    sessions = ", ".join(f"{count} {state}" for state, count in sorted(status["sessions"].items()))
    runs = status["runs"]
    typer.echo(f"  sessions   {sessions or 'none'}")
    typer.echo(f"  runs       {runs.get('running', 0)} running, {runs.get('queued', 0)} queued")
    typer.echo(f"  jails      {status['jails']}")
    typer.echo(f"  memory     {byte_size(status['memory_bytes'])}")
    typer.echo(f"  database   {byte_size(status['database_bytes'])}")
    for name, problem in status["problems"].items():
        typer.secho(f"  {name} does not work: {problem}", fg="red")


def _time(seconds: int) -> str:
    days, rest = divmod(seconds, 86_400)
    hours, minutes = rest // 3600, rest % 3600 // 60
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds % 60} s"
