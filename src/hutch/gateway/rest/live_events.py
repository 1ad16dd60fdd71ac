"""Live telemetry: the newest events over all sessions, as a list and as a stream."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Any

import orjson
from fastapi import Query, Request, Response
from pydantic import Field
from starlette.responses import StreamingResponse

from hutch.domain.errors import Denied, HutchError, Unauthenticated
from hutch.domain.user import Caller
from hutch.flows.analytics.newest_visible_events import EventFilter, newest_events, newest_position
from hutch.gateway.auth.caller_dependency import Reader, authenticator_of
from hutch.gateway.request_and_response_bodies import Limit, NumberCursor, Out, answer, next_link
from hutch.gateway.rest.base_route import router, server_of
from hutch.gateway.stream.sse_and_websocket_frames import HEARTBEAT, sse_control, sse_opening
from hutch.gateway.stream.stream_quota import stream_quota_of
from hutch.store.newest_events_over_sessions import NewestEvent

routes = router("analytics")
POLL_INTERVAL_S = 0.5
HEARTBEAT_INTERVAL_S = 15.0
BATCH = 200
Types = Annotated[
    list[str] | None,
    Query(alias="type", max_length=20, description="Only this type, or a group such as `command.`"),
]
Repository = Annotated[str, Query(max_length=500, description="Only of sessions on this repository.")]
User = Annotated[str, Query(max_length=80, description="Only of this user's sessions: a name or an id.")]
Words = Annotated[str, Query(max_length=1000, description="Only events with this text.")]


class LiveEventOut(Out):
    """An event of a session."""

    type: str
    data: dict[str, Any] = Field(description="The fields of the event.")
    repoUrl: str | None = Field(description="The repository of its session.")
    prompt: str | None = Field(description="The prompt of its run.")
    timestamp: int = Field(description="Milliseconds since 1970.")
    session: str
    seq: int
    position: int = Field(description="Its place among all events of this server.")


class LiveEventsOut(Out):
    """The newest events, newest first."""

    items: Sequence[LiveEventOut]
    next: str | None = Field(
        description="The cursor of older events. A page may be empty and have one: then none matched so far."
    )


@routes.get("/logs", operation_id="list_newest_events", response_model=LiveEventsOut)
async def newest(
    request: Request,
    caller: Reader,
    kinds: Types = None,
    repository: Repository = "",
    user: User = "",
    q: Words = "",
    cursor: NumberCursor = "",
    limit: Limit = 100,
) -> Response:
    """The newest events over all sessions that the caller may see, newest first."""
    wanted = EventFilter(tuple(kinds or ()), repository, user, q)
    before = int(cursor) if cursor else None
    found = await newest_events(server_of(request).services, caller, wanted, before=before, limit=limit)
    more = None if found.next is None else str(found.next)
    body = {"items": [_item(each) for each in found.events], "next": more}
    return answer(body, headers=next_link(request, "cursor", more))


@routes.get("/logs/stream", operation_id="stream_newest_events", response_class=StreamingResponse)
async def stream(
    request: Request,
    caller: Reader,
    kinds: Types = None,
    repository: Repository = "",
    user: User = "",
    q: Words = "",
) -> Response:
    """New events over all sessions that the caller may see, as server-sent events, as they happen."""
    wanted = EventFilter(tuple(kinds or ()), repository, user, q)
    services = server_of(request).services
    last_id = request.headers.get("last-event-id", "")
    is_number = last_id.isascii() and last_id.isdigit() and len(last_id) < 19
    after = int(last_id) if is_number else await newest_position(services)
    await newest_events(services, caller, wanted, after=after, limit=1)  # refuses wrong filters at once
    slot = stream_quota_of(request.app).acquire(request.scope, caller)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

    async def body() -> AsyncGenerator[bytes]:
        try:
            async for frame in _frames(request, caller, wanted, after):
                yield frame
        finally:
            slot.release()

    return StreamingResponse(body(), headers=headers, media_type="text/event-stream; charset=utf-8")


async def _frames(request: Request, caller: Caller, wanted: EventFilter, after: int) -> AsyncGenerator[bytes]:
    """Frames until the server stops or the caller loses access, which is checked before each batch."""
    server, loop = server_of(request), asyncio.get_running_loop()
    yield sse_opening()
    sent_s = loop.time()
    while not server.closing:
        try:
            caller = await authenticator_of(request).recheck(request.scope)
            found = await newest_events(server.services, caller, wanted, after=after, limit=BATCH)
        except (Denied, Unauthenticated):
            yield sse_control("refused", reason="you no longer have access")
            return
        except HutchError:  # a busy database, for example
            await asyncio.sleep(POLL_INTERVAL_S)
            continue
        for each in found.events:
            yield b"id: %d\nevent: message\ndata: %b\n\n" % (each.position, orjson.dumps(_item(each)))
        is_moved, after = (found.next or after) > after, found.next or after
        if found.events:
            sent_s = loop.time()
        elif loop.time() - sent_s > HEARTBEAT_INTERVAL_S:
            sent_s = loop.time()
            yield HEARTBEAT
        if not is_moved:
            await asyncio.sleep(POLL_INTERVAL_S)
    yield sse_control("closing", reason="the server is stopping; reconnect in a moment")


def _item(found: NewestEvent) -> dict[str, Any]:
    data = orjson.loads(found.entry.payload)
    return {
        "type": data.pop("type", found.entry.event.type),
        "data": data,
        "repoUrl": found.repository or None,
        "prompt": found.prompt or None,
        "timestamp": found.entry.at_ms,
        "session": found.session_id,
        "seq": found.entry.seq,
        "position": found.position,
    }
