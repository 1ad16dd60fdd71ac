"""Opens, lists and closes terminals of a session. A WebSocket carries their bytes."""

from typing import Annotated

from fastapi import Path, Request, Response
from pydantic import Field

from hutch.gateway.auth.caller_dependency import Reader, Writer
from hutch.gateway.idempotency import ByKey
from hutch.gateway.responses import In, Out, answer, fields_from
from hutch.gateway.rest.base_route import ask, router
from hutch.sessions.requests import (
    CloseTerminal,
    ListTerminals,
    OpenTerminal,
    TerminalProgram,
    TerminalState,
)

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


@routes.delete(
    "/sessions/{session_id}/terminals/{terminal_id}", status_code=204, operation_id="close_terminal"
)
async def close(
    request: Request, caller: Writer, session_id: str, terminal_id: Annotated[str, Path(max_length=100)]
) -> Response:
    """Close a terminal, and end its programs."""
    await ask(request, caller, session_id, CloseTerminal(terminal_id))
    return Response(status_code=204)
