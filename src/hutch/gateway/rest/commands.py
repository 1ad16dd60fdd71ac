"""Commands in the jail of a session: run in a shell, left in the background, stopped."""

import signal as signals
from typing import Annotated

from fastapi import Path, Query, Request, Response
from pydantic import Field

from hutch.flows.sessions import allowed
from hutch.gateway.answers import LARGEST, In, Out, answer
from hutch.gateway.auth.who import Reader, Writer
from hutch.gateway.idempotency import ByKey
from hutch.gateway.rest.route import router, server_of
from hutch.sessions.requests import ListCommands, ReadCommand, RunCommand, SignalCommand

routes = router("commands")

LONGEST_S = 24 * 3600
CommandId = Annotated[str, Path(max_length=100)]


class CommandIn(In):
    """A command for a shell."""

    command: str = Field(min_length=1, max_length=200_000, examples=["make test"])
    shell: str = Field(
        "main",
        pattern=r"^[a-z0-9][a-z0-9._-]{0,31}$",
        description="Each name is a shell of its own, which keeps its directory and variables.",
    )
    timeout_s: float | None = Field(None, gt=0, le=LONGEST_S, description="When it is stopped.")
    yield_s: float | None = Field(
        None, ge=0, le=LONGEST_S, description="After this it goes on in the background, and is answered."
    )


class CommandResultOut(Out):
    """A command that has ended, or goes on in the background under `id`."""

    exit_code: int | None
    signal: int | None
    stdout: str
    stderr: str
    timed_out: bool
    running: bool
    id: str | None
    cwd: str
    truncated: bool
    duration_s: float
    note: str


class CommandOut(Out):
    """A command in the background."""

    id: str
    shell: str
    command: str
    cwd: str
    running: bool
    exit_code: int | None
    signal: int | None
    timed_out: bool
    duration_s: float


class CommandsOut(Out):
    """All commands in the background."""

    items: list[CommandOut]
    next: None = None


class OutputOut(CommandOut):
    """What a command printed from `start` to `end`; ask again with offset = `end`."""

    text: str
    start: int
    end: int


class SignalIn(In):
    """A signal by its number."""

    signal: int = Field(15, ge=1, le=int(signals.SIGRTMAX), description="15 asks it to end, 9 ends it.")


@routes.post("/sessions/{session_id}/commands", operation_id="run_command", response_model=CommandResultOut)
async def run(request: Request, who: Writer, once: ByKey, session_id: str, wanted: CommandIn) -> Response:
    """Run a command in a shell and wait for it, or for `yield_s`."""
    site = server_of(request).site
    session = await allowed(site, who, session_id, "input")
    asked = RunCommand(wanted.command, wanted.shell, wanted.timeout_s, wanted.yield_s)
    return answer(await site.host.call(session.id, asked, by=who.user.id))


@routes.get("/sessions/{session_id}/commands", operation_id="list_commands", response_model=CommandsOut)
async def listed(request: Request, who: Reader, session_id: str) -> Response:
    """The commands in the background."""
    site = server_of(request).site
    session = await allowed(site, who, session_id)
    found = await site.host.call(session.id, ListCommands(), by=who.user.id)
    return answer({"items": list(found), "next": None})


@routes.get(
    "/sessions/{session_id}/commands/{command_id}", operation_id="read_command", response_model=OutputOut
)
async def output(
    request: Request,
    who: Reader,
    session_id: str,
    command_id: CommandId,
    offset: Annotated[int, Query(ge=0, le=LARGEST, description="From this byte on.")] = 0,
) -> Response:
    """What a command in the background has printed."""
    site = server_of(request).site
    session = await allowed(site, who, session_id)
    return answer(await site.host.call(session.id, ReadCommand(command_id, offset), by=who.user.id))


@routes.post(
    "/sessions/{session_id}/commands/{command_id}/signal", status_code=204, operation_id="signal_command"
)
async def signal(
    request: Request, who: Writer, once: ByKey, session_id: str, command_id: CommandId, wanted: SignalIn
) -> Response:
    """Send a signal to a command in the background and all that it started."""
    site = server_of(request).site
    session = await allowed(site, who, session_id, "input")
    await site.host.call(session.id, SignalCommand(command_id, wanted.signal), by=who.user.id)
    return Response(status_code=204)


@routes.delete("/sessions/{session_id}/commands/{command_id}", status_code=204, operation_id="end_command")
async def end(request: Request, who: Writer, session_id: str, command_id: CommandId) -> Response:
    """End a command in the background, with all that it started."""
    site = server_of(request).site
    session = await allowed(site, who, session_id, "input")
    await site.host.call(session.id, SignalCommand(command_id, int(signals.SIGKILL)), by=who.user.id)
    return Response(status_code=204)
