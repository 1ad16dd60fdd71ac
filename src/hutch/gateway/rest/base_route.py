"""The base of all API routes: parses requests strictly."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import orjson
from fastapi import APIRouter, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from hutch.domain.user import Caller
from hutch.flows.sessions import allowed
from hutch.gateway.gateway_context import Server
from hutch.gateway.idempotency import handle_once
from hutch.sessions.file_and_command_requests import Request as SessionRequest

PREFIX = "/api/v1"
T = TypeVar("T")


class JsonRequest(Request):
    """Parses JSON strictly: no NaN, and limited nesting."""

    async def json(self) -> Any:
        return orjson.loads(await self.body())


class Route(APIRoute):
    """A route whose requests may have an idempotency key, and no parameters but its own."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        known = _names(self.dependant)

        async def answer(request: Request) -> Response:
            if request.scope["query_string"]:
                _refuse_unknown(request, known)
            return await handle_once(JsonRequest(request.scope, request.receive), handle)

        return answer


def _names(dependant: Dependant) -> set[str]:
    """The names of query parameters, including those of dependencies."""
    own = {field.alias for field in dependant.query_params}
    return own.union(*(_names(each) for each in dependant.dependencies))


def _refuse_unknown(request: Request, known: set[str]) -> None:
    """A misspelled parameter is an error, not ignored."""
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        there = f"There are: {', '.join(sorted(known))}" if known else "There are none"
        why = {"type": "unknown_parameter", "msg": f"There is no such parameter. {there}"}
        raise RequestValidationError([{"loc": ("query", name), **why} for name in unknown])


def router(tag: str, *, prefix: str = PREFIX) -> APIRouter:
    """A router for one resource."""
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        route_class=Route,
        responses=PROBLEMS,
        generate_unique_id_function=_operation_id,
    )


def _operation_id(route: APIRoute) -> str:
    """The name of the operation in generated clients: the name of the function."""
    return route.name


def server_of(request: Request) -> Server:
    """The server of the application."""
    server: Server = request.app.state.server
    return server


_CONTENT = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    "4XX": {"description": "The request was refused; `detail` says why.", "content": _CONTENT},
    "5XX": {"description": "The server failed, is overloaded, or is out of space.", "content": _CONTENT},
}


async def ask(request: Request, caller: Caller, session_id: str, query: SessionRequest[T]) -> T:
    """Call a session on behalf of a caller. Changes need more rights than reads."""
    services = server_of(request).services
    session = await allowed(services, caller, session_id, "input" if query.changes else "read")
    return await services.host.call(session.id, query, by=caller.user.id)
