"""`hutch tail`: the newest events over all sessions of a server, and new ones as they happen."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hutch.cli.api_client import Client
from hutch.cli.render.event_line import event_line, utc_time
from hutch.cli.server_requests import Json, ask, short
from hutch.cli.session_event_stream import SILENCE_TIMEOUT_S, read_sse
from hutch.domain.events import from_json
from hutch.system.terminal_safe_text import printable

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Show new events as they happen.")]
Kind = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND", help="Only this type (command.started) or group (command.). May be repeated."
    ),
]


def tail_command(
    follow: Follow = False,
    count: Annotated[int, typer.Option("--lines", "-n", min=1, max=200, help="How many events.")] = 20,
    kind: Kind = None,
    repository: Annotated[str, typer.Option("--repo", metavar="REPOSITORY", help="Only of this one.")] = "",
    user: Annotated[str, typer.Option("--user", metavar="USER", help="Only of this user's sessions.")] = "",
    text: Annotated[str, typer.Option("--grep", metavar="TEXT", help="Only events with this text.")] = "",
    as_json: Json = False,
) -> int:
    """Show the newest events over all sessions of the server."""
    named = {"repository": repository, "user": user, "q": text}
    which: dict[str, Any] = {name: value for name, value in named.items() if value}
    if kind:
        which["type"] = kind

    async def show(client: Client) -> None:
        found = await _newest(client, count, which)
        for each in reversed(found):
            typer.echo(json.dumps(each) if as_json else _line(each))
        if not follow:
            return
        last = str(found[0]["position"]) if found else ""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
        async with client.stream(
            "/logs/stream", headers=headers, silence_s=SILENCE_TIMEOUT_S, **which
        ) as answer:
            async for kind_, data in read_sse(answer):
                if kind_ in ("closing", "refused"):
                    typer.echo(f"The stream has ended: {printable(str(data.get('reason', '')))}", err=True)
                    return
                typer.echo(json.dumps(data) if as_json else _line(data))

    return ask(show, as_json=as_json)


async def _newest(client: Client, count: int, which: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The newest events, newest first. A page may be empty although older events match."""
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while len(found) < count:
        page = await client.get("/logs", limit=count - len(found), **which, **cursor)
        found += page["items"]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    return found


def _line(item: dict[str, Any]) -> str:
    event = from_json(json.dumps({"type": item["type"], **item["data"]}).encode(), item["type"])
    head = f"{utc_time(item['timestamp'])}  {short(item['session'])}  {printable(item['type'])}"
    return f"{head}  {event_line(event, {})}"
