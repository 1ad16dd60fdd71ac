"""Live events over SSE: `GET /api/v1/sessions/{id}/events/stream`."""

from typing import Any

from starlette.datastructures import Headers, QueryParams
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hutch.gateway.stream.open_streams import (
    CLOSING,
    COMPLETED,
    DAMAGED,
    DISCONNECTED,
    REFUSED,
    SLOW,
    Ending,
    streams_of,
)
from hutch.gateway.stream.session_follower import Follower
from hutch.gateway.stream.sse_and_websocket_frames import (
    HEARTBEAT,
    parse_position,
    sse,
    sse_control,
    sse_opening,
)
from hutch.gateway.stream.stream_permission import grant_stream
from hutch.sessions.interface import Update

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # a buffering proxy would delay events
]
NAMED_ENDINGS = frozenset(ending.name for ending in (COMPLETED, CLOSING, REFUSED, DAMAGED))


class EventStream:
    """The route, as plain ASGI, because it runs for every event of every client."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = await grant_stream(scope, scope["path_params"]["session_id"])
        last_id = Headers(scope=scope).get("last-event-id")
        after = parse_position(last_id, "Last-Event-ID")
        if after is None:
            after = parse_position(QueryParams(scope["query_string"]).get("after"), "after") or 0
        follower = Follower(allowed, after)
        if not await follower.check() and last_id:
            await Response(status_code=204)(scope, receive, send)  # tells a browser not to reconnect
            return
        if scope["method"] == "HEAD":
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await send(body_chunk(b"", more=False))
            return
        async with streams_of(scope["app"]).open(allowed, send) as stream:

            async def write(update: Update) -> None:
                await stream.put(body_chunk(sse(update)))

            async def heartbeat() -> None:
                await stream.put(body_chunk(HEARTBEAT))

            await stream.put({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await stream.put(body_chunk(sse_opening()))
            stream.heartbeat = heartbeat
            ending = await stream.run(follower.run(write), wait_for_disconnect(receive))
            if ending in (SLOW, DISCONNECTED):
                stream.cut()
                return
            name = ending.name if ending.name in NAMED_ENDINGS else CLOSING.name
            last = sse_control(name, reason=ending.reason, seq=follower.seq)
            stream.heartbeat = None
            await stream.put(body_chunk(last, more=False))


def body_chunk(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def wait_for_disconnect(receive: Receive) -> Ending:
    while (await receive())["type"] != "http.disconnect":
        continue
    return DISCONNECTED
