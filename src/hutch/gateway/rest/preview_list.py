"""The ports of a session that have previews, and their URLs."""

from fastapi import Request, Response
from pydantic import Field

from hutch.gateway.auth.caller_dependency import Reader
from hutch.gateway.request_and_response_bodies import Out, answer
from hutch.gateway.rest.base_route import ask, router
from hutch.sessions.file_and_command_requests import ListPorts

routes = router("previews")


class PreviewOut(Out):
    """A port that a program in the jail listens on."""

    port: int
    url: str = Field(
        description="Redirects a browser to the preview's own host name. A token gets the page here."
    )


class PreviewsOut(Out):
    """All ports with a preview."""

    items: list[PreviewOut]
    next: None = None


@routes.get("/sessions/{session_id}/previews", operation_id="list_previews", response_model=PreviewsOut)
async def listed(request: Request, caller: Reader, session_id: str) -> Response:
    """The ports that programs in the jail listen on, with the URLs of their previews."""
    ports = await ask(request, caller, session_id, ListPorts())
    origin = request.scope.get("hutch.origin") or ""
    items = [{"port": port, "url": f"{origin}/preview/{session_id}/{port}/"} for port in ports]
    return answer({"items": items, "next": None})
