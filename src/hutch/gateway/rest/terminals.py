"""Opens, lists, closes and exports terminals of a session. A WebSocket carries their bytes."""

from typing import Annotated

from fastapi import Path, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from hutch.domain.asciicast import MEDIA_TYPE
from hutch.flows.sessions import allowed, reader_of
from hutch.gateway.auth.caller_dependency import Reader, Writer
from hutch.gateway.idempotency import ByKey
from hutch.gateway.request_and_response_bodies import In, Out, answer, fields_from
from hutch.gateway.rest.base_route import ask, router, server_of
from hutch.sessions.file_and_command_requests import (
    CloseTerminal,
    ListTerminals,
    OpenTerminal,
    TerminalProgram,
    TerminalState,
)
from hutch.store.terminal_recording_export import export_terminal, find_terminal

routes = router("terminals")

MAX_SIDE = 1000


class TerminalIn(In):
    """The size of a new terminal, and its shell."""

    columns: int = Field(80, ge=1, le=MAX_SIDE)
    rows: int = Field(24, ge=1, le=MAX_SIDE)
    program: TerminalProgram = Field("bash", description="The shell that runs in it.")


@fields_from(TerminalState)
class TerminalOut(Out):
    """A terminal."""

    seq: int = Field(description="The number of bytes printed so far.")


class TerminalsOut(Out):
    """All terminals of a session."""

    items: list[TerminalOut]
    next: None = None


@routes.post(
    "/sessions/{session_id}/terminals",
    status_code=201,
    operation_id="open_terminal",
    response_model=TerminalOut,
)
async def open_(
    request: Request, caller: Writer, keyed: ByKey, session_id: str, body: TerminalIn | None = None
) -> Response:
    """Open a terminal with a shell in the jail. The log names each command, and the user who typed it."""
    wanted = body or TerminalIn()
    opening = OpenTerminal(wanted.columns, wanted.rows, program=wanted.program)
    return answer(await ask(request, caller, session_id, opening), 201)


@routes.get("/sessions/{session_id}/terminals", operation_id="list_terminals", response_model=TerminalsOut)
async def listed(request: Request, caller: Reader, session_id: str) -> Response:
    """The terminals of a session."""
    found = await ask(request, caller, session_id, ListTerminals())
    return answer({"items": list(found), "next": None})


@routes.get(
    "/sessions/{session_id}/terminals/{terminal_id}/cast",
    operation_id="export_terminal",
    response_class=Response,
    responses={200: {"description": "A recording.", "content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}},
)
async def export(
    request: Request, caller: Reader, session_id: str, terminal_id: Annotated[str, Path(max_length=100)]
) -> Response:
    """The recording of a terminal from the log, as asciicast version 3, with a marker at each command.

    Terminals that have ended and sessions that have ended have one too; one that runs is recorded up to now.
    """
    server = server_of(request)
    session = await allowed(server.services, caller, session_id)
    reader = await reader_of(server.services, caller, session)
    opened = await find_terminal(server.log, server.rows, session.id, terminal_id, reader)
    lines = export_terminal(server.log, session.id, terminal_id, reader, opened=opened)
    name = f"{session.id}-terminal-{terminal_id}.cast"
    return StreamingResponse(
        lines, media_type=MEDIA_TYPE, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


@routes.delete(
    "/sessions/{session_id}/terminals/{terminal_id}", status_code=204, operation_id="close_terminal"
)
async def close(
    request: Request, caller: Writer, session_id: str, terminal_id: Annotated[str, Path(max_length=100)]
) -> Response:
    """Close a terminal, and end its programs."""
    await ask(request, caller, session_id, CloseTerminal(terminal_id))
    return Response(status_code=204)
