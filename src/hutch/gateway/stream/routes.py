"""Where streams are. Plain routes: nothing between a frame and its client that could be left out."""

from starlette.routing import BaseRoute, Route, WebSocketRoute

from hutch.gateway.stream.preview import PreviewPath, Previews
from hutch.gateway.stream.socket import EventSocket
from hutch.gateway.stream.sse import EventStream
from hutch.gateway.stream.terminal import TerminalSocket

SESSION = "/api/v1/sessions/{session_id}"


def preview_routes(previews: Previews) -> list[BaseRoute]:
    path = PreviewPath(previews)
    places = ("/preview/{session_id}/{port}", "/preview/{session_id}/{port}/{rest:path}")
    return [route for place in places for route in (Route(place, path), WebSocketRoute(place, path))]


def routes() -> list[BaseRoute]:
    return [
        Route(f"{SESSION}/events/stream", EventStream(), methods=["GET"]),
        WebSocketRoute(f"{SESSION}/events/socket", EventSocket()),
        WebSocketRoute(f"{SESSION}/terminals/{{terminal_id}}/socket", TerminalSocket()),
    ]
