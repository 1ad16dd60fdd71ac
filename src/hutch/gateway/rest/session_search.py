"""Search over sessions."""

from typing import Annotated

from fastapi import Query, Request, Response

from hutch.flows import sessions as flow
from hutch.gateway.auth.caller_dependency import Reader
from hutch.gateway.request_and_response_bodies import Cursor, Limit, Page, page
from hutch.gateway.rest.base_route import router, server_of
from hutch.gateway.rest.sessions import SessionOut, search_words, sessions_json

routes = router("sessions")


@routes.get("/search", operation_id="search_sessions", response_model=Page[SessionOut])
async def search(
    request: Request,
    caller: Reader,
    q: Annotated[str, Query(min_length=1, max_length=500, description="Words; all of them must match.")],
    cursor: Cursor = "",
    limit: Limit = 50,
) -> Response:
    """Sessions with these words in their purpose, prompts or repository, the newest first."""
    services = server_of(request).services
    found = await flow.page(services, caller, text=search_words(q), before=cursor, limit=limit + 1)
    more = found[limit - 1].session.id if len(found) > limit else None
    return page(request, await sessions_json(services, caller, found[:limit]), more)
