"""The application: every door of the server, put together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.routing import APIRoute

from hutch.app.server import Server
from hutch.flows.users import Accounts
from hutch.gateway import health, openapi
from hutch.gateway.auth.doors import Doors
from hutch.gateway.auth.guard import Guard
from hutch.gateway.idempotency import Answered
from hutch.gateway.problem import handle_problems
from hutch.gateway.rest import (
    commands,
    content,
    edits,
    events,
    files,
    inputs,
    runs,
    sessions,
    snapshots,
    terminals,
)
from hutch.gateway.stream.routes import routes as stream_routes
from hutch.gateway.stream.streams import Streams
from hutch.gateway.trace_id import Traced

REST = (
    sessions.routes,
    inputs.routes,
    events.routes,
    runs.routes,
    files.routes,
    content.routes,
    edits.routes,
    snapshots.routes,
    commands.routes,
    terminals.routes,
    health.routes,
)


def make_app(server: Server) -> FastAPI:
    """What a server answers with."""
    settings = server.loaded.settings.server
    guard = Guard(Accounts(server.rows), settings)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        await guard.close()

    app = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=life,
        generate_unique_id_function=_operation_id,
    )
    app.state.server = server
    app.state.guard = guard
    app.state.answered = Answered(server.rows)
    app.state.streams = Streams()
    for routes in REST:
        app.include_router(routes)
    app.router.routes.extend(stream_routes())
    app.add_api_route(openapi.URL, openapi.serve, include_in_schema=False)
    handle_problems(app, server.redactor)
    app.add_middleware(Doors, server=settings, buckets=guard.buckets)
    app.add_middleware(Traced)  # the last one added is the outermost
    return app


def _operation_id(route: APIRoute) -> str:
    """What generated clients call it: as the function is named."""
    return route.name
