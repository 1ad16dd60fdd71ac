"""Pages of a session's events, and the content of changed files."""

from typing import Annotated, Literal

import orjson
from fastapi import Path, Query, Request, Response
from pydantic import Field
from starlette.types import Receive, Scope, Send

from hutch.domain.errors import BadRequest
from hutch.domain.event_query import MAX_TEXT_CHARS, MAX_VALUES
from hutch.domain.log_entry_audience import entry_json
from hutch.flows.log_visible_to_reader import Search, read_page, read_page_before, search_events
from hutch.flows.recorded_change_content import Version, read_content, read_diff
from hutch.gateway.auth.caller_dependency import Reader
from hutch.gateway.log_entry_response_types import EntryOut
from hutch.gateway.request_and_response_bodies import MAX_ITEMS, MAX_SIZE, Out, page
from hutch.gateway.rest.base_route import router, server_of
from hutch.gateway.rest.file_content import BINARY, CONTENT, SAFE
from hutch.gateway.rest.snapshots_and_diff import DIFF, DifferenceOut, diff_response
from hutch.gateway.stream.sse import EventStream

routes = router("events")

MAX_EVENTS = 1000
SSE = "text/event-stream"


class EventPage(Out):
    """Events, the oldest first; `next` is `after` of the next page, null on the last. With `before`, it is
    `before` of the page of earlier events."""

    items: list[EntryOut]
    next: int | None


class EventSearchPage(Out):
    """Events that match. A page may be empty and still have a `next`: a search examines a part of the log at
    a time."""

    items: list[EntryOut]
    next: int | None = Field(description="The `cursor` of the next page; null when the log was searched.")


Time = Annotated[
    str,
    Query(
        max_length=40,
        description="Milliseconds since 1970, an ISO 8601 date or time (UTC without a zone), or an age such "
        "as 30m, 2h, 7d.",
    ),
]


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
    before: Annotated[
        int | None,
        Query(
            ge=1,
            le=MAX_SIZE,
            description="The number of the first event that you have: returns the last ones before it. A "
            "number beyond the log returns its end.",
        ),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_EVENTS, description="The maximum number of events.")] = 500,
) -> Response:
    """The events of a session, from its log.

    With `Accept: text/event-stream` new events follow, as from `…/events/stream`.
    """
    if SSE in request.headers.get("accept", ""):
        return _Streamed()
    services = server_of(request).services
    if before is not None:
        if after:
            raise BadRequest("Give only one of `after` and `before`.")
        read = await read_page_before(services, caller, session_id, before=before, limit=limit)
        rendered = [orjson.Fragment(entry_json(entry)) for entry in read.entries]
        return page(request, rendered, read.entries[0].seq if read.more else None, "before")
    read = await read_page(services, caller, session_id, after=after, limit=limit)
    rendered = [orjson.Fragment(entry_json(entry)) for entry in read.entries]
    return page(request, rendered, read.entries[-1].seq if read.more else None, "after")


@routes.get(
    "/sessions/{session_id}/events/search", operation_id="search_events", response_model=EventSearchPage
)
async def search(
    request: Request,
    caller: Reader,
    session_id: str,
    text: Annotated[
        str, Query(max_length=MAX_TEXT_CHARS, description="Text in a field of the event; case is ignored.")
    ] = "",
    kind: Annotated[
        list[str] | None,
        Query(
            max_length=MAX_VALUES,
            description="A type, or a group such as `command.`; one of several.",
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        Query(max_length=MAX_VALUES, description="A user's name or id, `agent` or `hutch`; one of several."),
    ] = None,
    since: Time = "",
    until: Time = "",
    order: Annotated[Literal["oldest", "newest"], Query(description="The order of events.")] = "oldest",
    cursor: Annotated[
        int | None, Query(ge=0, le=MAX_SIZE, description="`next` of the previous page.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_ITEMS, description="The maximum number of events.")] = 100,
) -> Response:
    """The events of a session that match all conditions.

    Events that you may not see and erased events match nothing.
    """
    asked = Search(text, kind or (), by or (), since, until, newest_first=order == "newest")
    found = await search_events(
        server_of(request).services, caller, session_id, asked, after=cursor, limit=limit
    )
    rendered = [orjson.Fragment(entry_json(entry)) for entry in found.entries]
    return page(request, rendered, found.next)


Seq = Annotated[int, Path(ge=1, le=MAX_SIZE, description="The number of a `file.changed` event.")]


@routes.get(
    "/sessions/{session_id}/events/{seq}/content",
    operation_id="read_changed_file",
    response_class=Response,
    responses={200: {"description": "The file.", "content": CONTENT}},
)
async def content(
    request: Request,
    caller: Reader,
    session_id: str,
    seq: Seq,
    version: Annotated[Version, Query(description="The file before or after the change.")] = "after",
) -> Response:
    """A file as it was before or after a `file.changed` event.

    For callers who may only read the session, each byte of a secret that the server knows becomes `*`.
    """
    data = await read_content(server_of(request).services, caller, session_id, seq, version)
    headers = {name: value for name, value in SAFE.items() if name != "Accept-Ranges"}
    return Response(data, 200, headers, BINARY)


@routes.get(
    "/sessions/{session_id}/events/{seq}/diff",
    operation_id="get_changed_diff",
    response_model=DifferenceOut,
    responses={200: {"content": {DIFF: {"schema": {"type": "string"}}}}},
)
async def diff(request: Request, caller: Reader, session_id: str, seq: Seq) -> Response:
    """The diff of a `file.changed` or `files.changed` event. `Accept: text/x-diff` returns only the patch."""
    return diff_response(request, await read_diff(server_of(request).services, caller, session_id, seq))
