"""The tools of MCP clients: see sessions and work in them.

Every tool names its session. Callers have the same rights as over REST. The session's log
records all changes with the caller.
"""

from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import Field, ValidationError

from hutch.agent.tools.argument_error_help import describe_shape, unquote_json
from hutch.agent.tools.tool_schemas_and_dispatch import schema
from hutch.domain import validation_messages
from hutch.domain.errors import BadRequest
from hutch.domain.inputs import AnyInput
from hutch.domain.log_entry_audience import entry_json
from hutch.domain.one_line_text import echo
from hutch.flows import sessions as flow
from hutch.flows.log_visible_to_reader import read_page
from hutch.gateway.mcp.bash_and_exec_tools import COMMAND_TOOLS
from hutch.gateway.mcp.file_tools import FILE_TOOLS
from hutch.gateway.mcp.session_creation_and_prompt_tools import RUN_TOOLS, SentOut
from hutch.gateway.mcp.session_tool_and_call_types import Call, SessionArguments, SessionTool
from hutch.gateway.mcp.task_tools import TASK_TOOLS
from hutch.gateway.mcp.test_run_tools import TEST_TOOLS
from hutch.gateway.request_and_response_bodies import MAX_SIZE, In, Out, cursor

MAX_FAULTS = 5


class ListSessionsArguments(In):
    text: str = Field("", max_length=200, description="Only sessions with this text in their purpose.")
    limit: int = Field(20, ge=1, le=200)
    cursor: str = Field("", max_length=80, description="`next` of the previous result.")


class SendInputArguments(SessionArguments):
    input: AnyInput


class SessionEventsArguments(SessionArguments):
    after: int = Field(0, ge=0, le=MAX_SIZE, description="The number of the last event that you have.")
    limit: int = Field(50, ge=1, le=500)


class SessionSummaryOut(Out):
    """A session in a list."""

    session_id: str
    purpose: str
    state: str
    repository: str
    parent: str = Field(description="The session whose agent delegated to this one; empty: none.")
    last_event: int


class SessionListOut(Out):
    """Sessions, and the cursor of the next page."""

    sessions: list[SessionSummaryOut]
    next: str | None


class EventsOut(Out):
    """Events with their numbers; see the page about events."""

    events: list[dict[str, Any]]


async def list_sessions(call: Call, args: ListSessionsArguments) -> Any:
    found = await flow.page(
        call.server.services, call.caller, text=args.text, before=cursor(args.cursor), limit=args.limit + 1
    )
    more, found = len(found) > args.limit, found[: args.limit]
    return {
        "sessions": [
            {
                "session_id": shown.session.id,
                "purpose": shown.session.purpose,
                "state": shown.session.state,
                "repository": shown.session.repository,
                "parent": shown.session.parent,
                "last_event": shown.head.seq,
            }
            for shown in found
        ],
        "next": found[-1].session.id if more else None,
    }


async def send_input(call: Call, args: SendInputArguments) -> Any:
    accepted = await flow.give(call.server.services, call.caller, args.session_id, args.input)
    return {"seq": accepted.seq}


async def session_events(call: Call, args: SessionEventsArguments) -> Any:
    read = await read_page(
        call.server.services, call.caller, args.session_id, after=args.after, limit=args.limit
    )
    return {"events": [orjson.loads(entry_json(entry)) for entry in read.entries]}


TOOLS = {
    tool.name: tool
    for tool in (
        SessionTool(
            "list_sessions",
            "List sessions",
            "Sessions that you may see, the newest first.",
            ListSessionsArguments,
            SessionListOut,
            list_sessions,
            True,
        ),
        *RUN_TOOLS,
        *COMMAND_TOOLS,
        *TEST_TOOLS,
        *FILE_TOOLS,
        *TASK_TOOLS,
        SessionTool(
            "send_input",
            "Send an input",
            "Give the session any input: a message, a pause, an undo, the end.",
            SendInputArguments,
            SentOut,
            send_input,
        ),
        SessionTool(
            "session_events",
            "Read events",
            "The events of the session after a number.",
            SessionEventsArguments,
            EventsOut,
            session_events,
            True,
        ),
    )
}


async def use(call: Call, name: str, arguments: Mapping[str, Any], session_id: str) -> Any:
    """Call a tool; `session_id` is the default for arguments without one."""
    tool = TOOLS.get(name)
    if tool is None:
        raise BadRequest(f"There is no tool {echo(name, 40)}. There are: {', '.join(TOOLS)}.")
    args = dict(arguments)
    if issubclass(tool.arguments, SessionArguments) and not args.get("session_id"):
        if not session_id:
            raise BadRequest("`session_id` is missing. list_sessions returns the ids.")
        args["session_id"] = session_id
    try:
        parsed = tool.arguments.model_validate(unquote_json(args, schema(tool.arguments)))
    except ValidationError as error:
        wrong = error.errors(include_input=False, include_url=False)[:MAX_FAULTS]
        faults = "; ".join(validation_messages.describe_with_location(each) for each in wrong)
        shape = describe_shape(schema(tool.arguments))
        raise BadRequest(f"{name}: {faults}. It takes {shape}.") from None
    return await tool.use(call, parsed)
