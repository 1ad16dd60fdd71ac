"""`hutch webhooks`: tell other systems about interviews."""

import json
from typing import Annotated, Any

import typer

from hutch.cli.api_client import Client
from hutch.cli.server_requests import Json, ask, short
from hutch.domain.errors import NotFound
from hutch.domain.ids import ambiguous_id, matches_id
from hutch.domain.outgoing_webhook import WEBHOOK_EVENTS
from hutch.system.terminal_safe_text import visible

app = typer.Typer(help="Tell other systems about interviews.", no_args_is_help=True, add_completion=False)
WebhookName = Annotated[
    str, typer.Argument(metavar="WEBHOOK", help="A webhook's id, or a unique part of it.")
]


@app.command()
def add(
    url: Annotated[str, typer.Argument(metavar="URL", help="An https address.")],
    event: Annotated[
        list[str] | None,
        typer.Option(metavar="EVENT", help=f"Only this event; may be repeated: {', '.join(WEBHOOK_EVENTS)}."),
    ] = None,
    description: Annotated[str, typer.Option(help="For people.")] = "",
    as_json: Json = False,
) -> int:
    """Add a webhook, and print its secret. It is shown only now."""

    async def work(client: Client) -> None:
        body = {"url": url, "events": event or [], "description": description}
        made = await client.post("/webhooks", body)
        typer.echo(json.dumps(made) if as_json else f"{made['id']}\n{made['secret']}")

    return ask(work, as_json=as_json)


@app.command("list")
def list_(as_json: Json = False) -> int:
    """List the webhooks."""

    async def work(client: Client) -> None:
        for each in (await client.get("/webhooks"))["items"]:
            state = "off" if each["disabled"] else ", ".join(each["events"]) or "all events"
            typer.echo(
                json.dumps(each) if as_json else f"{short(each['id'])}  {visible(each['url'])}  {state}"
            )

    return ask(work, as_json=as_json)


@app.command()
def messages(webhook: WebhookName, as_json: Json = False) -> int:
    """List the last messages to a webhook."""

    async def work(client: Client) -> None:
        found = await _find(client, webhook)
        for each in (await client.get(f"/webhooks/{found['id']}/messages"))["items"]:
            last = each["attempts"][-1]["error"] if each["attempts"] else ""
            line = f"{each['id']}  {each['event']}  {each['state']}, attempts: {len(each['attempts'])}"
            typer.echo(json.dumps(each) if as_json else f"{line}  {visible(last)}".rstrip())

    return ask(work, as_json=as_json)


@app.command()
def resend(
    webhook: WebhookName,
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="The id of a message.")],
) -> int:
    """Send a message once more, under the same id."""
    return _act(webhook, f"messages/{message}/send")


@app.command()
def ping(webhook: WebhookName) -> int:
    """Send a test message."""
    return _act(webhook, "ping")


@app.command()
def rotate(webhook: WebhookName, as_json: Json = False) -> int:
    """Print a new secret. For 24 hours, messages are signed with the old one too."""

    async def work(client: Client) -> None:
        found = await _find(client, webhook)
        made = await client.post(f"/webhooks/{found['id']}/rotate", None)
        typer.echo(json.dumps(made) if as_json else made["secret"])

    return ask(work, as_json=as_json)


@app.command()
def stop(webhook: WebhookName) -> int:
    """Send nothing to a webhook until it is started again."""
    return _switch(webhook, disabled=True)


@app.command()
def start(webhook: WebhookName) -> int:
    """Send to a stopped webhook again."""
    return _switch(webhook, disabled=False)


@app.command()
def remove(webhook: WebhookName) -> int:
    """Remove a webhook with its messages."""

    async def work(client: Client) -> None:
        found = await _find(client, webhook)
        await client.request("DELETE", f"/webhooks/{found['id']}")

    return ask(work)


def _switch(name: str, *, disabled: bool) -> int:
    async def work(client: Client) -> None:
        found = await _find(client, name)
        await client.request("PATCH", f"/webhooks/{found['id']}", json={"disabled": disabled})

    return ask(work)


def _act(name: str, what: str) -> int:
    async def work(client: Client) -> None:
        found = await _find(client, name)
        await client.post(f"/webhooks/{found['id']}/{what}", None)

    return ask(work)


async def _find(client: Client, name: str) -> dict[str, Any]:
    found = (await client.get("/webhooks"))["items"]
    matching = [each for each in found if matches_id(each["id"], name)]
    if not matching:
        raise NotFound(f"There is no webhook {name[:80]!r}. `hutch webhooks list` lists them.")
    if len(matching) > 1:
        raise ambiguous_id([each["id"] for each in matching], name, "webhooks")
    return dict(matching[0])
