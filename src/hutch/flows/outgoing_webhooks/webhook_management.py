"""Adds, lists, rotates and removes webhooks to other systems. Only owners of the installation may."""

import asyncio
from collections.abc import Sequence

from hutch.domain.errors import BadRequest, LimitReached
from hutch.domain.ids import new_webhook_id
from hutch.domain.one_line_text import echo
from hutch.domain.outgoing_webhook import WEBHOOK_EVENTS, WebhookEndpoint, WebhookMessage
from hutch.domain.user import Caller
from hutch.flows.outgoing_webhooks.webhook_http_post import find_address, parse_target
from hutch.flows.outgoing_webhooks.webhook_sender import WebhookSender
from hutch.flows.outgoing_webhooks.webhook_signature import new_secret
from hutch.store.outgoing_webhooks import MAX_ENDPOINTS
from hutch.system.clock_without_jumps import wall_ms

OVERLAP_MS = 24 * 3600 * 1000  # in which messages are signed with the old secret too


async def add_webhook(
    sender: WebhookSender, who: Caller, url: str, events: Sequence[str], description: str = ""
) -> tuple[WebhookEndpoint, str]:
    """Add a webhook. Returns it with its secret, which is shown only now."""
    who.need("admin")
    await find_address(parse_target(url), sender.private)
    _check_events(events)
    endpoint = WebhookEndpoint(
        id=new_webhook_id(),
        url=url,
        description=description,
        events=tuple(dict.fromkeys(events)),
        created_by=who.user.id,
        created_ms=wall_ms(),
    )
    secret = new_secret()
    await asyncio.to_thread(sender.secrets.set, endpoint.id, secret)
    if not await sender.webhooks.add_endpoint(endpoint):
        await asyncio.to_thread(sender.secrets.delete, endpoint.id)
        raise LimitReached(f"There are {MAX_ENDPOINTS} webhooks already. Remove one.", limit="webhooks")
    return endpoint, secret


def _check_events(events: Sequence[str]) -> None:
    for each in events:
        if each not in WEBHOOK_EVENTS:
            raise BadRequest(
                f"{echo(each, 80)} is not a webhook event. There are: {', '.join(WEBHOOK_EVENTS)}."
            )


async def list_webhooks(sender: WebhookSender, who: Caller) -> list[WebhookEndpoint]:
    who.need("admin")
    return await sender.webhooks.endpoints()


async def change_webhook(
    sender: WebhookSender, who: Caller, id: str, *, events: Sequence[str] | None, disabled: bool | None
) -> WebhookEndpoint:
    """Choose other events, or stop and continue sending."""
    who.need("admin")
    await sender.webhooks.endpoint(id)
    if events is not None:
        _check_events(events)
    await sender.webhooks.change_endpoint(id, events=events, disabled=disabled)
    return await sender.webhooks.endpoint(id)


async def rotate_secret(sender: WebhookSender, who: Caller, id: str) -> str:
    """A new secret. For a day, messages are signed with the old one too."""
    who.need("admin")
    await sender.webhooks.endpoint(id)
    secret = new_secret()
    await sender.webhooks.change_endpoint(id, old_secret_until_ms=wall_ms() + OVERLAP_MS)
    await asyncio.to_thread(sender.secrets.set, id, secret)
    return secret


async def remove_webhook(sender: WebhookSender, who: Caller, id: str) -> None:
    """Remove a webhook with its messages and secrets."""
    who.need("admin")
    await sender.webhooks.endpoint(id)
    await sender.webhooks.delete_endpoint(id)
    await asyncio.to_thread(sender.secrets.delete, id)


async def list_messages(
    sender: WebhookSender, who: Caller, id: str, *, before: str = "", limit: int = 50
) -> list[WebhookMessage]:
    """The messages to a webhook with their attempts, newest first."""
    who.need("admin")
    await sender.webhooks.endpoint(id)
    return await sender.webhooks.messages(id, before=before, limit=limit)


async def send_again(sender: WebhookSender, who: Caller, id: str, message_id: str) -> None:
    """Send a message once more, under the same id."""
    who.need("admin")
    await sender.webhooks.send_again(id, message_id)
    sender.wake.set()


async def ping(sender: WebhookSender, who: Caller, id: str) -> None:
    """Send a test message."""
    who.need("admin")
    await sender.webhooks.endpoint(id)
    await sender.webhooks.queue("ping", None, endpoint_id=id)
    sender.wake.set()
