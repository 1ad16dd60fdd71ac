"""Commands in the jail of a session: run, list, read and stop them."""

from typing import Annotated

from fastapi import Path, Query, Request, Response
from pydantic import Field

from hutch.domain.signal_names import SignalNumber, parse_signal
from hutch.gateway.auth.caller_dependency import Reader, Writer
from hutch.gateway.idempotency import ByKey
from hutch.gateway.request_and_response_bodies import MAX_SIZE, In, Out, answer, fields_from
from hutch.gateway.rest.base_route import ask, router
from hutch.sessions.file_and_command_requests import (
    CommandOutput,
    CommandResult,
    CommandState,
    ListCommands,
    ReadCommand,
    RunCommand,
    RunProgram,
    SignalCommand,
)

routes = router("commands")

MAX_S = 24 * 3600
MAX_WORDS = 1000
TERM, KILL = parse_signal("TERM"), parse_signal("KILL")
CommandId = Annotated[str, Path(max_length=100)]


class CommandIn(In):
    """A command for a shell."""

    command: str = Field(min_length=1, max_length=200_000, examples=["make test"])
    shell: str = Field(
        "main",
        pattern=r"^[a-z0-9][a-z0-9._-]{0,31}$",
        description="The name of the shell. Each shell keeps its directory and variables.",
    )
    timeout_s: float | None = Field(None, gt=0, le=MAX_S, description="The time after which it is stopped.")
    yield_s: float | None = Field(
        None,
        ge=0,
        le=MAX_S,
        description="The time after which it continues in the background and the response is sent.",
    )


class ProgramIn(In):
    """A program and its arguments, without a shell."""

    argv: list[str] = Field(min_length=1, max_length=MAX_WORDS, examples=[["git", "log", "-1"]])
    cwd: str = Field("", max_length=4096, description="Below the workspace, or absolute in the jail.")
    stdin: str = Field("", max_length=1_000_000)
    timeout_s: float | None = Field(None, gt=0, le=600, description="The time after which it is killed.")

    def request(self) -> RunProgram:
        return RunProgram(tuple(self.argv), self.cwd, self.stdin.encode(errors="replace"), self.timeout_s)


@fields_from(CommandResult)
class CommandResultOut(Out):
    """A command that has ended, or continues in the background under `id`."""


@fields_from(CommandState)
class CommandOut(Out):
    """A command in the background."""


class CommandsOut(Out):
    """All commands in the background."""

    items: list[CommandOut]
    next: None = None


@fields_from(CommandOutput)
class OutputOut(Out):
    """The output of a command from `start` to `end`; `end` is the offset of the next part."""


class SignalIn(In):
    """A signal, by name or number."""

    signal: SignalNumber = Field(TERM, description="`TERM` asks it to end, `KILL` kills it.")


@routes.post("/sessions/{session_id}/commands", operation_id="run_command", response_model=CommandResultOut)
async def run(request: Request, caller: Writer, keyed: ByKey, session_id: str, body: CommandIn) -> Response:
    """Run a command in a shell and wait for it, or for `yield_s`."""
    command = RunCommand(body.command, body.shell, body.timeout_s, body.yield_s)
    return answer(await ask(request, caller, session_id, command))


@routes.post("/sessions/{session_id}/exec", operation_id="run_program", response_model=CommandResultOut)
async def exec_(request: Request, caller: Writer, keyed: ByKey, session_id: str, body: ProgramIn) -> Response:
    """Run one program to its end, without a shell: no character of its arguments has a meaning.

    With the setting `jail.allowed_commands`, only the programs in it.
    """
    return answer(await ask(request, caller, session_id, body.request()))


@routes.get("/sessions/{session_id}/commands", operation_id="list_commands", response_model=CommandsOut)
async def listed(request: Request, caller: Reader, session_id: str) -> Response:
    """The commands in the background."""
    found = await ask(request, caller, session_id, ListCommands())
    return answer({"items": list(found), "next": None})


@routes.get(
    "/sessions/{session_id}/commands/{command_id}", operation_id="read_command", response_model=OutputOut
)
async def output(
    request: Request,
    caller: Reader,
    session_id: str,
    command_id: CommandId,
    offset: Annotated[int, Query(ge=0, le=MAX_SIZE, description="The first byte.")] = 0,
) -> Response:
    """The output of a command in the background."""
    return answer(await ask(request, caller, session_id, ReadCommand(command_id, offset)))


@routes.post(
    "/sessions/{session_id}/commands/{command_id}/signal", status_code=204, operation_id="signal_command"
)
async def signal(
    request: Request, caller: Writer, keyed: ByKey, session_id: str, command_id: CommandId, body: SignalIn
) -> Response:
    """Send a signal to a command in the background and all its processes."""
    await ask(request, caller, session_id, SignalCommand(command_id, body.signal))
    return Response(status_code=204)


@routes.delete("/sessions/{session_id}/commands/{command_id}", status_code=204, operation_id="end_command")
async def end(request: Request, caller: Writer, session_id: str, command_id: CommandId) -> Response:
    """End a command in the background with all its processes."""
    await ask(request, caller, session_id, SignalCommand(command_id, KILL))
    return Response(status_code=204)
