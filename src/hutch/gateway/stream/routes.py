"""The routes of streams. They are plain ASGI, so that frames pass no needless layers."""

from starlette.routing import BaseRoute, Route, WebSocketRoute

from hutch.gateway.stream.document_websocket import DocumentSocket
from hutch.gateway.stream.event_and_input_websocket import EventSocket
from hutch.gateway.stream.jail_page_previews import PreviewPath, Previews
from hutch.gateway.stream.sse import EventStream
from hutch.gateway.stream.terminal_websocket import TerminalSocket

SESSION = "/api/v1/sessions/{session_id}"


def preview_routes(previews: Previews) -> list[BaseRoute]:
    path = PreviewPath(previews)
    paths = ("/preview/{session_id}/{port}", "/preview/{session_id}/{port}/{rest:path}")
    return [route for each in paths for route in (Route(each, path), WebSocketRoute(each, path))]


def routes() -> list[BaseRoute]:
    return [
        Route(f"{SESSION}/events/stream", EventStream(), methods=["GET"]),
        WebSocketRoute(f"{SESSION}/events/socket", EventSocket()),
        WebSocketRoute(f"{SESSION}/documents/socket", DocumentSocket()),
        WebSocketRoute(f"{SESSION}/terminals/{{terminal_id}}/socket", TerminalSocket()),
    ]
