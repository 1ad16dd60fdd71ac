"""Events: what happened in a session, a page at a time."""

import asyncio
from typing import Annotated

import orjson
from fastapi import Query, Request, Response
from starlette.types import Receive, Scope, Send

from hutch.domain.events import entry_json
from hutch.domain.ids import SessionId
from hutch.domain.session import Session
from hutch.flows import sessions as flow
from hutch.gateway.answers import LARGEST, Out, page
from hutch.gateway.auth.who import Reader
from hutch.gateway.entries import EntryOut
from hutch.gateway.rest.route import router, server_of
from hutch.gateway.stream.sse import EventStream

routes = router("events")

MOST_EVENTS = 1000
SSE = "text/event-stream"


class EventPage(Out):
    """Events, the oldest first; ask again with `after` = `next` until that is null."""

    items: list[EntryOut]
    next: int | None


class _Streamed(Response):
    """An answer that does not end while the session goes on."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await EventStream()(scope, receive, send)


@routes.get("/sessions/{session_id}/events", operation_id="list_events", response_model=EventPage)
async def listed(
    request: Request,
    who: Reader,
    session_id: str,
    after: Annotated[int, Query(ge=0, le=LARGEST, description="The last number that is known.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_EVENTS, description="How many at most.")] = 500,
) -> Response:
    """What happened in a session, as it is in its log.

    With `Accept: text/event-stream` it goes on with what comes, as `…/events/stream` does.
    """
    if SSE in request.headers.get("accept", ""):
        return _Streamed()
    server = server_of(request)
    session, read = await asyncio.gather(  # at once: it is read often
        flow.allowed(server.site, who, session_id),
        server.log.page(SessionId(session_id), after=after, limit=limit),
        return_exceptions=True,
    )
    for problem in (session, read):  # in this order: to whom it is not shown, it does not exist
        if isinstance(problem, BaseException):
            raise problem
    assert isinstance(session, Session) and isinstance(read, tuple)
    entries, more = read
    if more and len(entries) == limit:
        more = entries[-1].seq < (await server.log.head(session.id)).seq
    shown = [orjson.Fragment(entry_json(entry)) for entry in entries]
    return page(request, shown, entries[-1].seq if more else None, "after")
