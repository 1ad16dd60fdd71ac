"""`hutch tasks conflicts`, `resolve` and `prompt`: changes that were not sent, and a short status."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer

from hutch.cli.local_only_notice import other_server
from hutch.cli.repository_of_task_commands import Json, TaskKey
from hutch.cli.server_tasks.server_task_requests import ServerTasks
from hutch.cli.server_tasks.shell_prompt_status_line import prompt_line
from hutch.cli.server_tasks.task_copy_and_outbox import QueuedChange, TaskCopy
from hutch.cli.server_tasks.task_json_and_filter import task_from_json, value_of
from hutch.domain.errors import BadRequest, NotFound
from hutch.settings import find_paths
from hutch.system.terminal_safe_text import printable

NO_LOGIN = "Changes wait only for a server of `hutch login`; on this machine they are stored at once."


def register_outbox_commands(app: typer.Typer) -> None:
    app.command()(conflicts)
    app.command()(resolve)
    app.command()(prompt)


def conflicts(as_json: Json = False) -> None:
    """List your changes that the server does not have."""
    address = other_server()
    found = [] if address is None else TaskCopy(find_paths(), address).changes()
    for change in found:
        typer.echo(json.dumps(asdict(change)) if as_json else _lines(change))
    if not found and not as_json:
        typer.echo(NO_LOGIN if address is None else "The server has all your changes.", err=True)


def resolve(
    key: TaskKey,
    mine: Annotated[bool, typer.Option("--mine", help="Store your values over the others.")] = False,
    theirs: Annotated[bool, typer.Option("--theirs", help="Keep what is stored; drop your values.")] = False,
    field: Annotated[
        str, typer.Option("--field", metavar="NAME", help="Only for this field; the others stay open.")
    ] = "",
) -> None:
    """Resolve conflicts of a task, and send the result."""
    if mine == theirs:
        raise BadRequest("Say which values to use: --mine or --theirs. See both: hutch tasks conflicts")
    address = other_server()
    if address is None:
        raise NotFound(NO_LOGIN)
    tasks = ServerTasks(address)
    open_changes = [
        each for each in tasks.copy.changes() if key in (each.key, each.task) and each.status != "waiting"
    ]
    if not open_changes:
        raise NotFound(f"No change of {key[:40]!r} is in conflict. List them: hutch tasks conflicts")
    for change in open_changes:
        tasks.resolve(change, use_mine=mine, field=field)
    is_sent = tasks.send()
    left = [each for each in tasks.copy.changes() if key in (each.key, each.task)]
    state = "Sent." if not left else "It is sent when the server can be reached." if not is_sent else ""
    typer.echo(f"{key}: {'yours' if mine else 'theirs'}. {state}".rstrip())
    for change in left if is_sent else ():
        typer.echo(_lines(change), err=True)


def prompt(as_json: Json = False) -> None:
    """Print a status line for a shell prompt.

    It counts your open tasks, sessions that wait, and unsent changes, in the local copy.
    """
    sys.stdout.write(line + "\n" if (line := prompt_line(as_json=as_json)) else "")


def _lines(change: QueuedChange) -> str:
    head = printable(f"{change.key:<8} {change.status:<9} {change.kind} {change.title}")
    if change.status == "refused":
        return f"{head}\n  {printable(change.problem)}"
    if change.theirs is None:
        shown = {"title"} if change.kind == "create" else set()
        values = {name: value for name, value in change.values.items() if value and name not in shown}
        return "\n".join([head, *(f"  {name}: {_text(value)}" for name, value in values.items())])
    theirs = task_from_json(change.theirs)
    lines = [head]
    for name in change.fields:
        lines += [f"  {name}", f"    yours:  {_text(change.values[name])}"]
        lines += [f"    theirs: {_text(value_of(theirs, name))}"]
    lines += [f"  To use yours: hutch tasks resolve {change.key} --mine; otherwise --theirs"]
    return "\n".join(lines)


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return printable(
            ", ".join(str(each["text"]) if isinstance(each, Mapping) else str(each) for each in value)
        )
    return printable(str(value)) or "(empty)"
