"""Pages of a session's events."""

from typing import Annotated

import orjson
from fastapi import Query, Request, Response
from starlette.types import Receive, Scope, Send

from hutch.domain.audience import entry_json
from hutch.flows.log_access import read_page
from hutch.gateway.auth.caller_dependency import Reader
from hutch.gateway.responses import MAX_SIZE, Out, page
from hutch.gateway.rest.base_route import router, server_of
from hutch.gateway.session_log_entries import EntryOut
from hutch.gateway.stream.sse import EventStream

routes = router("events")

MAX_EVENTS = 1000
SSE = "text/event-stream"


class EventPage(Out):
    """Events, the oldest first; `next` is `after` of the next page, null on the last."""

    items: list[EntryOut]
    next: int | None


class _Streamed(Response):
    """A response that lasts as long as the session."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await EventStream()(scope, receive, send)


@routes.get("/sessions/{session_id}/events", operation_id="list_events", response_model=EventPage)
async def listed(
    request: Request,
    caller: Reader,
    session_id: str,
    after: Annotated[
        int, Query(ge=0, le=MAX_SIZE, description="The number of the last event that you have.")
    ] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_EVENTS, description="The maximum number of events.")] = 500,
) -> Response:
    """The events of a session, from its log.

    With `Accept: text/event-stream` new events follow, as from `…/events/stream`.
    """
    if SSE in request.headers.get("accept", ""):
        return _Streamed()
    read = await read_page(server_of(request).services, caller, session_id, after=after, limit=limit)
    rendered = [orjson.Fragment(entry_json(entry)) for entry in read.entries]
    return page(request, rendered, read.entries[-1].seq if read.more else None, "after")
