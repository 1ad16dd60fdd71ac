"""Webhooks of forges. Only signed deliveries are accepted."""

import asyncio
import hashlib
import re
from typing import Annotated

import orjson
from fastapi import Header, Request, Response
from pydantic import Field

from hutch.domain.errors import BadRequest, LimitReached, NotFound, Unauthenticated
from hutch.flows.github_webhook_parsing import is_signed, to_forge_request
from hutch.forge.gh_command import GITHUB
from hutch.gateway.request_and_response_bodies import Out, answer
from hutch.gateway.rest.base_route import router, server_of

routes = router("webhooks")

MAX_BYTES = 2 * 1024 * 1024
DELIVERY = re.compile(r"[A-Za-z0-9-]{1,100}")


class TakenOut(Out):
    """The result of a webhook delivery."""

    state: str = Field(description="`queued`; `known` if it was received before; or `ignored`.")
    reason: str = Field(description="Why it is ignored.")


@routes.post(
    "/webhooks/github",
    status_code=202,
    operation_id="github_webhook",
    response_model=TakenOut,
    openapi_extra={"requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}}},
)
async def github(
    request: Request,
    x_github_event: Annotated[str, Header(max_length=100)] = "",
    x_github_delivery: Annotated[str, Header(max_length=200)] = "",
    x_hub_signature_256: Annotated[str, Header(max_length=200)] = "",
) -> Response:
    """Receive GitHub's events about issues and comments, signed with the secret `github_webhook_secret`."""
    server = server_of(request)
    secret = await asyncio.to_thread(server.webhook_secret)
    if not secret:
        raise NotFound("Webhooks are not set up. An owner can: hutch config set-secret github_webhook_secret")
    body = await _body(request)
    if not is_signed(secret, body, x_hub_signature_256):
        raise Unauthenticated("The signature is missing or wrong.")
    if x_github_event == "ping":
        return answer({"state": "ignored", "reason": "Hello."}, 202)
    if not DELIVERY.fullmatch(x_github_delivery):
        raise BadRequest("The header X-GitHub-Delivery is missing or not valid.")
    try:
        payload = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise BadRequest("The body is not JSON. Set the content type application/json at GitHub.") from None
    github = server.loaded.settings.github
    forge_request = to_forge_request(
        x_github_event, payload, mention=github.mention, hosts=(GITHUB, *github.hosts)
    )
    if isinstance(forge_request, str):
        return answer({"state": "ignored", "reason": forge_request}, 202)
    digest = hashlib.sha256(body).hexdigest()
    is_new = await server.triggers.take(x_github_delivery, digest, x_github_event, forge_request)
    return answer({"state": "queued" if is_new else "known", "reason": ""}, 202)


async def _body(request: Request) -> bytes:
    """The whole body, up to the limit for callers that are not authenticated yet."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BYTES:
            raise LimitReached(f"The body is larger than {MAX_BYTES} bytes.", limit="server.body_bytes")
        parts.append(part)
    return b"".join(parts)
