"""Webhooks to other systems: owners add, list, rotate, try and remove them. See docs/webhooks.md."""

from typing import Annotated, Any

from fastapi import Request, Response
from pydantic import Field

from hutch.domain.outgoing_webhook import WebhookEndpoint, WebhookEvent, WebhookMessage
from hutch.flows.outgoing_webhooks import webhook_management
from hutch.flows.outgoing_webhooks.webhook_sender import WebhookSender
from hutch.gateway.auth.caller_dependency import Reader
from hutch.gateway.request_and_response_bodies import (
    Cursor,
    Id,
    In,
    Limit,
    Out,
    Page,
    answer,
    fields_from,
    paged,
)
from hutch.gateway.rest.base_route import router, server_of

routes = router("webhooks")


@fields_from(WebhookEndpoint)
class WebhookOut(Out):
    """A webhook, without its secret."""


class NewWebhookOut(WebhookOut):
    """A new webhook; `secret` is shown only once."""

    secret: str


class RotatedSecretOut(Out):
    """A new secret. For 24 hours, messages are signed with the old one too."""

    secret: str


@fields_from(WebhookMessage)
class MessageOut(Out):
    """A message and the attempts to deliver it."""

    attempts: list[dict[str, Any]]


class NewWebhook(In):
    url: str = Field(max_length=2000, description="An https address.")
    events: list[WebhookEvent] = Field([], max_length=20, description="By default all.")
    description: str = Field("", max_length=200)


class WebhookChange(In):
    events: list[WebhookEvent] | None = Field(None, max_length=20)
    disabled: bool | None = None


class Webhooks(Out):
    items: list[WebhookOut]


def sender_of(request: Request) -> WebhookSender:
    return server_of(request).webhooks


@routes.post("/webhooks", status_code=201, response_model=NewWebhookOut)
async def add_webhook(request: Request, caller: Reader, body: NewWebhook) -> Response:
    """Add a webhook for events of interviews. Its address may not be private."""
    made, secret = await webhook_management.add_webhook(
        sender_of(request), caller, body.url, body.events, body.description
    )
    return answer({**WebhookOut.of(made), "secret": secret}, 201)


@routes.get("/webhooks", response_model=Webhooks)
async def list_webhooks(request: Request, caller: Reader) -> Response:
    """All webhooks, oldest first."""
    return answer({"items": await webhook_management.list_webhooks(sender_of(request), caller)})


@routes.patch("/webhooks/{webhook_id}", response_model=WebhookOut)
async def change_webhook(request: Request, caller: Reader, webhook_id: Id, body: WebhookChange) -> Response:
    """Choose other events, or stop and continue sending."""
    changed = await webhook_management.change_webhook(
        sender_of(request), caller, webhook_id, events=body.events, disabled=body.disabled
    )
    return answer(changed)


@routes.delete("/webhooks/{webhook_id}", status_code=204)
async def remove_webhook(request: Request, caller: Reader, webhook_id: Id) -> None:
    """Remove a webhook with its messages."""
    await webhook_management.remove_webhook(sender_of(request), caller, webhook_id)


@routes.post("/webhooks/{webhook_id}/rotate", response_model=RotatedSecretOut)
async def rotate_webhook_secret(request: Request, caller: Reader, webhook_id: Id) -> Response:
    """Replace the secret of a webhook."""
    return answer({"secret": await webhook_management.rotate_secret(sender_of(request), caller, webhook_id)})


@routes.post("/webhooks/{webhook_id}/ping", status_code=202)
async def ping_webhook(request: Request, caller: Reader, webhook_id: Id) -> Response:
    """Send a test message."""
    await webhook_management.ping(sender_of(request), caller, webhook_id)
    return answer({}, 202)


@routes.get("/webhooks/{webhook_id}/messages", response_model=Page[MessageOut])
async def list_webhook_messages(
    request: Request, caller: Reader, webhook_id: Id, cursor: Cursor = "", limit: Limit = 50
) -> Response:
    """The messages of the last 30 days with their attempts, newest first."""
    found = await webhook_management.list_messages(
        sender_of(request), caller, webhook_id, before=cursor, limit=limit + 1
    )
    return paged(request, found, limit)


@routes.post("/webhooks/{webhook_id}/messages/{message_id}/send", status_code=202)
async def send_webhook_message_again(
    request: Request,
    caller: Reader,
    webhook_id: Id,
    message_id: Annotated[str, Field(max_length=40)],
) -> Response:
    """Send a message once more, under the same id."""
    await webhook_management.send_again(sender_of(request), caller, webhook_id, message_id)
    return answer({}, 202)
