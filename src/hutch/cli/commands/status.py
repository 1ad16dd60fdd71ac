"""`hutch status`: does the server run, where, and how much is going on in it?"""

import json
import ssl
import time
from typing import Annotated, Any

import httpx2
import typer

from hutch import settings
from hutch.cli import exit_codes
from hutch.cli.server_address import no_local_token
from hutch.settings import Paths
from hutch.system.running_server import RunningServer, find_server, local_token

TIMEOUT_S = 5.0
NO_ANSWER = "It does not answer: {} Look at its log: hutch logs"
UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def status_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> int:
    """Tell whether the server runs, where, and what goes on. Exits with 3 when none runs."""
    paths = settings.find_paths()
    running = find_server(paths.server_files)
    if running is None:
        typer.echo(json.dumps({"running": False}) if as_json else "No server runs. Start one: hutch up")
        return exit_codes.NO
    told, problem = _ask(running, paths)
    uptime_s = max(0, round(time.time() - running.started_ms / 1000))
    if as_json:
        here = {"running": True, "url": running.url, "pid": running.pid, "version": running.version}
        also = {"problem": problem} if problem else {}
        typer.echo(json.dumps({**here, "uptime_s": uptime_s, **told, **also}))
        return exit_codes.NO if problem else exit_codes.OK
    typer.echo(
        f"Hutch {running.version} runs at {running.url} (process {running.pid}), for {_time(uptime_s)}."
    )
    if problem:
        typer.echo(problem, err=True)
        return exit_codes.NO
    _show(told)
    return exit_codes.OK


def _ask(running: RunningServer, paths: Paths) -> tuple[dict[str, Any], str]:
    """What the server tells of itself, or why it does not."""
    trusted: ssl.SSLContext | bool = False  # without TLS there is nobody to be trusted
    if running.certificate:
        # It is the process that we know; that its certificate is for another name does not matter.
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
        told = answer.json()
    except (httpx2.HTTPError, ValueError, OSError) as error:
        return {}, NO_ANSWER.format(f"{error or type(error).__name__}.")
    if answer.status_code != 200:
        return {}, NO_ANSWER.format(told.get("detail", answer.status_code))
    return told, ""


def _show(told: dict[str, Any]) -> None:
    sessions = ", ".join(f"{count} {state}" for state, count in sorted(told["sessions"].items()))
    runs = told["runs"]
    typer.echo(f"  sessions   {sessions or 'none'}")
    typer.echo(f"  runs       {runs.get('running', 0)} running, {runs.get('queued', 0)} queued")
    typer.echo(f"  jails      {told['jails']}")
    typer.echo(f"  memory     {_size(told['memory_bytes'])}")
    typer.echo(f"  database   {_size(told['database_bytes'])}")
    for name, problem in told["problems"].items():
        typer.secho(f"  {name} does not work: {problem}", fg="red")


def _size(size_bytes: int) -> str:
    for unit, size in UNITS:
        if size_bytes >= size:
            return f"{size_bytes / size:.1f} {unit}"
    return f"{size_bytes} bytes"


def _time(seconds: int) -> str:
    days, rest = divmod(seconds, 86_400)
    hours, minutes = rest // 3600, rest % 3600 // 60
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds % 60} s"
