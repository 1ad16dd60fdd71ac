"""Events: what happened in a session, a page at a time."""

import asyncio
from typing import Annotated

import orjson
from fastapi import Query, Request, Response
from starlette.types import Receive, Scope, Send

from hutch.domain.ids import SessionId
from hutch.domain.session import Session
from hutch.flows import sessions as flow
from hutch.gateway.answers import LARGEST, Out, page
from hutch.gateway.auth.who import Reader
from hutch.gateway.entries import EntryOut, entry_json
from hutch.gateway.rest.route import router, server_of
from hutch.gateway.stream.sse import EventStream

routes = router("events")

MOST_EVENTS = 1000
SSE = "text/event-stream"
LONG_BYTES = 512 * 1024  # the log gives fewer events at once when they are long


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
    session, entries = await asyncio.gather(  # at once: it is read often
        flow.allowed(server.site, who, session_id),
        server.log.read(SessionId(session_id), after=after, limit=limit),
        return_exceptions=True,
    )
    for problem in (session, entries):  # in this order: to whom it is not shown, it does not exist
        if isinstance(problem, BaseException):
            raise problem
    assert isinstance(session, Session) and isinstance(entries, list)
    told = [entry_json(entry) for entry in entries]
    more = None
    if len(entries) == limit or sum(map(len, told)) > LONG_BYTES:  # else this is all there is
        newest = (await server.log.head(session.id)).seq
        more = entries[-1].seq if entries[-1].seq < newest else None
    return page(request, [orjson.Fragment(each) for each in told], more, "after")
