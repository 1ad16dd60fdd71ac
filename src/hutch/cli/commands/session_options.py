"""`hutch sessions set`: change the options of an open session."""

import json
from typing import Annotated, Any

import typer

from hutch.cli.api_client import Client
from hutch.cli.render.session_option_change_text import change_lines, waiting_lines
from hutch.cli.server_requests import Json, SessionName, ask, find_session
from hutch.cli.session_client import ServedSessions
from hutch.cli.session_option_parsing import parse_options

Options = Annotated[
    list[str],
    typer.Argument(
        metavar="OPTION=VALUE...",
        help="persona, model, network, temperature, effort, memory_bytes and others; see docs/sessions.md.",
    ),
]


def set_command(session: SessionName, options: Options, as_json: Json = False) -> int:
    """Change options of a session. A run at work has them from its next turn on.

    The value `default` unsets an option: `hutch sessions set last effort=high memory_bytes=default`.
    """
    body = parse_options(options)

    async def work(client: Client) -> None:
        found = await find_session(client, session)
        changed = await ServedSessions(client).change(found["id"], body)
        if as_json:
            typer.echo(json.dumps(changed))
            return
        for line in change_lines({"changes": _changes(found, changed)}) or ["Nothing was changed."]:
            typer.echo(line)
        for line in waiting_lines(changed):
            typer.echo(line, err=True)

    return ask(work, as_json=as_json)


def _changes(before: dict[str, Any], after: dict[str, Any]) -> list[dict[str, Any]]:
    changes = []
    for name in ("persona", "model", "network"):
        changes.append({"name": name, "before": before[name], "after": after[name]})
    for group in ("limits", "resources", "generation"):
        for name, value in after[group].items():
            changes.append({"name": name, "before": before[group].get(name), "after": value})
    return [each for each in changes if each["before"] != each["after"]]
