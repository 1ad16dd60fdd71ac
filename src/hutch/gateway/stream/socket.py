"""Events as they come, and inputs the other way, over a WebSocket.

`/api/v1/sessions/{id}/events/socket`. Frames are JSON texts, see docs/streams.md.
"""

from typing import Any

from pydantic import ValidationError
from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope, Send

from hutch.domain import validation_messages
from hutch.domain.errors import BadRequest, HutchError
from hutch.domain.inputs import parse_input
from hutch.domain.untrusted_text import echo
from hutch.flows.sessions import give
from hutch.gateway.problem import tell
from hutch.gateway.stream.follower import Follower
from hutch.gateway.stream.frames import error_word, framed, heard, place, word
from hutch.gateway.stream.stream_grant import Permit, permit, permit_of
from hutch.gateway.stream.streams import LEFT, OVER, REFUSED, SLOW, Ending, Stream, streams_of
from hutch.gateway.stream.websocket_protocol import close_of
from hutch.sessions.interface import Update

MAX_ID = 200


class EventSocket:
    """The route, as plain ASGI."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            allowed = await permit(scope, scope["path_params"]["session_id"])
            after = place(QueryParams(scope["query_string"]).get("after"), "after")
            follower = Follower(allowed, after or 0)
            await follower.check()
        except HutchError as error:
            await refuse(scope, receive, send, error)
            return
        await receive()
        async with streams_of(scope["app"]).open(allowed, send) as stream:

            async def write(update: Update) -> None:
                await stream.put(text(framed(update)))

            async def beat() -> None:
                await stream.put(text(word("beat", seq=follower.seq)))

            await stream.put({"type": "websocket.accept"})
            stream.beat = beat
            ending = await stream.run(follower.run(write), _hear(stream, receive))
            if ending is OVER:
                await stream.put(text(word("end", seq=follower.seq)))
            await close(stream, ending, follower.seq)


async def _hear(stream: Stream, receive: Receive) -> Ending:
    """Inputs, and whether anybody is there; what is wrong with a frame is told, and the next one heard."""
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return LEFT
        name: Any = None
        try:
            if message.get("text") is None:
                raise BadRequest("Frames here are JSON texts. Bytes go to terminals.")
            said = heard(message["text"])
            name = said.get("id")
            if name is not None and not (isinstance(name, str | int) and len(str(name)) <= MAX_ID):
                name = None
                raise BadRequest(f"`id` is a text of at most {MAX_ID} letters, or a number.")
            answer = await _answer(permit_of(stream), said, name)
        except HutchError as error:
            answer = error_word(error, stream.permit.server.redactor.redact, id=name)
        await stream.put(text(answer))


async def _answer(permit: Permit, said: dict[str, Any], name: Any) -> str:
    if said["type"] == "ping":
        return word("pong", id=name)
    if said["type"] != "input":
        raise BadRequest(f"There is no frame {echo(said['type'], 40)} here; there is input, and ping.")
    permit.count()
    try:
        asked = parse_input.validate_python(said.get("input"))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise BadRequest(
            f"`input` is not as it should be. {validation_messages.describe_with_location(first)}."
        ) from None
    given = await give(permit.server.services, permit.who, permit.session.id, asked)
    return word("ack", id=name, seq=given.seq)


def text(content: str) -> dict[str, Any]:
    return {"type": "websocket.send", "text": content}


async def refuse(scope: Scope, receive: Receive, send: Send, error: HutchError) -> None:
    """Before a WebSocket was opened: an answer by HTTP, as for any other request."""
    redactor = scope["app"].state.server.redactor
    response = tell(error, redactor)
    if "websocket.http.response" not in scope.get("extensions", {}):
        reason = redactor.redact(str(error))[:100]
        await send({"type": "websocket.close", "code": REFUSED.code, "reason": reason})
        return
    start = {"type": "websocket.http.response.start", "status": response.status_code}
    await send({**start, "headers": response.raw_headers})
    await send({"type": "websocket.http.response.body", "body": response.body})


async def close(stream: Stream, why: Ending, seq: int) -> None:
    """Close a WebSocket, and say where to go on. Who does not read is not waited for."""
    if why is LEFT:
        return
    goes_on = why.code != OVER.code and why is not REFUSED
    reason = f"resume={seq} {why.reason}" if goes_on else why.reason
    past = close_of(stream.permit.scope)
    if why is SLOW and past is None:
        stream.cut()
    elif past is not None:
        past(why.code, reason[:120])
    else:
        await stream.put({"type": "websocket.close", "code": why.code, "reason": reason[:120]})
