"""Live events to the client and inputs from it, over a WebSocket.

`/api/v1/sessions/{id}/events/socket`. Frames are JSON texts, see docs/streams.md.
"""

from typing import Any

from pydantic import ValidationError
from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope, Send

from hutch.domain import validation_messages
from hutch.domain.errors import BadRequest, HutchError
from hutch.domain.inputs import parse_input
from hutch.domain.one_line_text import echo
from hutch.flows.sessions import give
from hutch.gateway.problem_json import error_response
from hutch.gateway.stream.abortable_uvicorn_protocols import close_of
from hutch.gateway.stream.open_streams import (
    COMPLETED,
    DISCONNECTED,
    REFUSED,
    SLOW,
    Ending,
    Stream,
    streams_of,
)
from hutch.gateway.stream.session_follower import Follower
from hutch.gateway.stream.sse_and_websocket_frames import (
    control_frame,
    error_frame,
    parse_frame,
    parse_position,
    update_frame,
)
from hutch.gateway.stream.stream_permission import StreamGrant, grant_of, grant_stream
from hutch.sessions.interface import Update

MAX_ID = 200


class EventSocket:
    """The route, as plain ASGI."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            allowed = await grant_stream(scope, scope["path_params"]["session_id"])
            after = parse_position(QueryParams(scope["query_string"]).get("after"), "after")
            follower = Follower(allowed, after or 0)
            await follower.check()
        except HutchError as error:
            await refuse(scope, receive, send, error)
            return
        await receive()
        async with streams_of(scope["app"]).open(allowed, send) as stream:

            async def write(update: Update) -> None:
                await stream.put(text(update_frame(update)))

            async def heartbeat() -> None:
                await stream.put(text(control_frame("heartbeat", seq=follower.seq)))

            await stream.put({"type": "websocket.accept"})
            stream.heartbeat = heartbeat
            ending = await stream.run(follower.run(write), _receive_frames(stream, stream.confirmed(receive)))
            if ending is COMPLETED:
                await stream.put(text(control_frame("end", seq=follower.seq)))
            await close(stream, ending, follower.seq)


async def _receive_frames(stream: Stream, receive: Receive) -> Ending:
    """Process inputs until the client disconnects. A bad frame gets an error frame as its answer."""
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return DISCONNECTED
        frame_id: Any = None
        try:
            if message.get("text") is None:
                raise BadRequest("Frames here are JSON texts. Bytes go to terminals.")
            frame = parse_frame(message["text"])
            frame_id = frame.get("id")
            if frame_id is not None and not (
                isinstance(frame_id, str | int) and len(str(frame_id)) <= MAX_ID
            ):
                frame_id = None
                raise BadRequest(f"`id` is a text of at most {MAX_ID} characters, or a number.")
            answer = await _answer(grant_of(stream), frame, frame_id)
        except HutchError as error:
            answer = error_frame(error, stream.grant.server.redactor.redact, id=frame_id)
        await stream.put(text(answer))


async def _answer(grant: StreamGrant, frame: dict[str, Any], frame_id: Any) -> str:
    if frame["type"] == "ping":
        return control_frame("pong", id=frame_id)
    if frame["type"] != "input":
        raise BadRequest(f"There is no frame {echo(frame['type'], 40)} here; there is input, and ping.")
    grant.count()
    try:
        input = parse_input.validate_python(frame.get("input"))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise BadRequest(
            f"`input` is not valid. {validation_messages.describe_with_location(first)}."
        ) from None
    accepted = await give(grant.server.services, grant.caller, grant.session.id, input)
    return control_frame("ack", id=frame_id, seq=accepted.seq)


def text(content: str) -> dict[str, Any]:
    return {"type": "websocket.send", "text": content}


async def refuse(scope: Scope, receive: Receive, send: Send, error: HutchError) -> None:
    """Reject a handshake with an HTTP response, as for any other request."""
    redactor = scope["app"].state.server.redactor
    response = error_response(error, redactor)
    if "websocket.http.response" not in scope.get("extensions", {}):
        reason = redactor.redact(str(error))[:100]
        await send({"type": "websocket.close", "code": REFUSED.code, "reason": reason})
        return
    start = {"type": "websocket.http.response.start", "status": response.status_code}
    await send({**start, "headers": response.raw_headers})
    await send({"type": "websocket.http.response.body", "body": response.body})


async def close(stream: Stream, why: Ending, seq: int) -> None:
    """Close a WebSocket, with the position to resume from. Does not wait for slow clients."""
    if why is DISCONNECTED:
        return
    can_resume = why.code != COMPLETED.code and why is not REFUSED
    reason = f"resume={seq} {why.reason}" if can_resume else why.reason
    close_now = close_of(stream.grant.scope)
    if why is SLOW and close_now is None:
        stream.cut()
    elif close_now is not None:
        close_now(why.code, reason[:120])
    else:
        await stream.put({"type": "websocket.close", "code": why.code, "reason": reason[:120]})
