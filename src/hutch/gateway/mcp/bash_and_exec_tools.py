"""Tools that run commands in a session: in a shell, in the background, or without a shell."""

from typing import Any

from pydantic import Field

from hutch.domain.signal_names import SignalNumber
from hutch.gateway.mcp.session_tool_and_call_types import Call, SessionArguments, SessionTool
from hutch.gateway.request_and_response_bodies import MAX_SIZE, Out
from hutch.gateway.rest.session_commands import KILL, CommandIn, CommandResultOut, OutputOut, ProgramIn
from hutch.sessions import file_and_command_requests as requests


class BashArguments(CommandIn, SessionArguments):
    yield_s: float | None = Field(
        10, ge=0, le=600, description="After this time it continues in the background."
    )


class BashOutputArguments(SessionArguments):
    id: str = Field(max_length=100, description="The id that bash returned.")
    offset: int = Field(0, ge=0, le=MAX_SIZE, description="`end` of the previous result.")


class BashKillArguments(SessionArguments):
    id: str = Field(max_length=100, description="The id that bash returned.")
    signal: SignalNumber = Field(KILL, description="`KILL`, or another one such as `TERM` or `INT`.")


class ExecArguments(ProgramIn, SessionArguments):
    pass


class SignalledOut(Out):
    """A signal that was sent."""

    id: str
    signal: int


async def bash(call: Call, args: BashArguments) -> Any:
    fields = args.model_dump(exclude={"session_id"})
    return await call.ask(args, requests.RunCommand(**fields))


async def bash_output(call: Call, args: BashOutputArguments) -> Any:
    return await call.ask(args, requests.ReadCommand(args.id, args.offset))


async def bash_kill(call: Call, args: BashKillArguments) -> Any:
    await call.ask(args, requests.SignalCommand(args.id, args.signal))
    return {"id": args.id, "signal": args.signal}


async def exec_(call: Call, args: ExecArguments) -> Any:
    return await call.ask(args, args.request())


COMMAND_TOOLS = (
    SessionTool(
        "bash",
        "Run a command",
        "Run a command in a shell of the session's jail. It keeps its directory and variables.",
        BashArguments,
        CommandResultOut,
        bash,
    ),
    SessionTool(
        "bash_output",
        "Read a command's output",
        "The output of a command in the background, from an offset.",
        BashOutputArguments,
        OutputOut,
        bash_output,
        True,
    ),
    SessionTool(
        "bash_kill",
        "End a command",
        "Kill a command in the background with all its processes, or send it a signal.",
        BashKillArguments,
        SignalledOut,
        bash_kill,
    ),
    SessionTool(
        "exec",
        "Run a program",
        "Run one program to its end without a shell: nothing in its arguments is interpreted.",
        ExecArguments,
        CommandResultOut,
        exec_,
    ),
)
