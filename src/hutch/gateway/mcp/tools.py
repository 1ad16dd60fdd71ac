"""What an MCP client of the server can do: see sessions, and work in them as any other client does.

Every tool names its session. Whoever calls may do with it what they may by REST, and no
more; what a tool changes is in the session's log, with who wanted it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import orjson
from pydantic import Field, ValidationError

from hutch.domain import validation_messages
from hutch.domain.audience import entry_json
from hutch.domain.errors import BadRequest
from hutch.domain.inputs import AnyInput
from hutch.domain.untrusted_text import echo
from hutch.domain.user import Caller
from hutch.flows import sessions as flow
from hutch.flows.log_access import read_page
from hutch.gateway.context import Server
from hutch.gateway.responses import MAX_SIZE, In, cursor
from hutch.gateway.rest.commands import CommandIn
from hutch.gateway.rest.content import Content
from hutch.gateway.rest.edits import EditIn, PatchIn, told
from hutch.gateway.rest.paths import PathText, parse_path
from hutch.sessions import requests
from hutch.sessions.requests import Request
from hutch.workspace.search import MOST_CONTEXT, Grep

READ_BYTES = 256 * 1024
MAX_FAULTS = 5
T = TypeVar("T")


class InSession(In):
    """What all tools but one are told."""

    session_id: str = Field("", max_length=80, description="As list_sessions tells it.")


class SessionsAsked(In):
    text: str = Field("", max_length=200, description="Only those with this in their purpose.")
    limit: int = Field(20, ge=1, le=200)
    cursor: str = Field("", max_length=80, description="`next` of the answer before.")


class Command(CommandIn, InSession):
    yield_s: float | None = Field(10, ge=0, le=600, description="After this it goes on in the background.")


class FileAsked(InSession):
    path: PathText
    start: int = Field(0, ge=0, le=MAX_SIZE, description="The first byte.")
    length: int = Field(READ_BYTES, ge=1, le=READ_BYTES)


class FileWritten(InSession):
    path: PathText
    content: str
    if_hash: str | None = Field(None, max_length=64, description="Only if the file still has this SHA-256.")


class Edits(EditIn, InSession):
    pass


class Patch(PatchIn, InSession):
    pass


class FilesAsked(InSession):
    pattern: str = Field(min_length=1, max_length=10_000, examples=["**/*.py"])
    path: PathText = ""
    limit: int = Field(200, ge=1, le=5000)
    offset: int = Field(0, ge=0, le=MAX_SIZE, description="`next` of the answer before.")


class Searched(InSession):
    pattern: str = Field(min_length=1, max_length=10_000)
    path: PathText = ""
    glob: str | None = Field(None, max_length=10_000)
    ignore_case: bool = False
    context: int = Field(0, ge=0, le=MOST_CONTEXT)
    limit: int = Field(100, ge=1, le=2000)
    offset: int = Field(0, ge=0, le=MAX_SIZE, description="`next` of the answer before.")
    output: Literal["content", "files", "count"] = "content"


class InputGiven(InSession):
    input: AnyInput


class EventsAsked(InSession):
    after: int = Field(0, ge=0, le=MAX_SIZE, description="The number of the last event that is known.")
    limit: int = Field(50, ge=1, le=500)


@dataclass(frozen=True, slots=True)
class Call:
    """Who calls, on what server."""

    server: Server
    who: Caller

    async def ask(self, given: InSession, request: Request[T]) -> T:
        """Ask a session, if the caller may."""
        services = self.server.services
        session = await flow.allowed(
            services, self.who, given.session_id, "input" if request.changes else "read"
        )
        return await services.host.call(session.id, request, by=self.who.user.id)

    async def is_read_only(self, given: InSession) -> bool:
        """Whether the caller may read the session and not write."""
        services = self.server.services
        return not await flow.may_write(
            services, self.who, await flow.allowed(services, self.who, given.session_id)
        )


async def list_sessions(call: Call, given: SessionsAsked) -> Any:
    found = await flow.page(
        call.server.services, call.who, text=given.text, before=cursor(given.cursor), limit=given.limit + 1
    )
    more, found = len(found) > given.limit, found[: given.limit]
    return {
        "sessions": [
            {
                "session_id": shown.session.id,
                "purpose": shown.session.purpose,
                "state": shown.session.state,
                "repository": shown.session.repository,
                "last_event": shown.head.seq,
            }
            for shown in found
        ],
        "next": found[-1].session.id if more else None,
    }


async def bash(call: Call, given: Command) -> Any:
    wanted = given.model_dump(exclude={"session_id"})
    return await call.ask(given, requests.RunCommand(**wanted))


async def read_file(call: Call, given: FileAsked) -> Any:
    services = call.server.services
    session = await flow.allowed(services, call.who, given.session_id)
    mask = services.redactor.mask
    content = Content(services.host, session.id, parse_path(given.path), call.who.user.id, mask)
    if await flow.may_write(services, call.who, session):
        found = await content.part_across(given.start, given.length, mask)
    else:
        found = await content.part(given.start, given.length)
    text = found.data.decode(errors="replace")
    return {
        "path": found.path,
        "text": text,
        "start": found.start,
        "bytes": len(found.data),
        "size": found.size,
    }


async def write_file(call: Call, given: FileWritten) -> Any:
    path, data = parse_path(given.path), given.content.encode(errors="replace")
    return await call.ask(given, requests.WriteFile(path, data, if_hash=given.if_hash))


async def edit_file(call: Call, given: Edits) -> Any:
    edits = [each.model_dump() for each in given.edits]
    return told(await call.ask(given, requests.EditFile(parse_path(given.path), edits)))


async def apply_patch(call: Call, given: Patch) -> Any:
    return told(await call.ask(given, requests.ApplyPatch(given.patch)))


async def glob(call: Call, given: FilesAsked) -> Any:
    path = parse_path(given.path, or_root=True)
    read_only = await call.is_read_only(given)
    return await call.ask(
        given, requests.FindFiles(given.pattern, path, given.limit, given.offset, read_only)
    )


async def grep(call: Call, given: Searched) -> Any:
    wanted = given.model_dump(exclude={"session_id", "path"})
    path = parse_path(given.path, or_root=True)
    read_only = await call.is_read_only(given)
    return await call.ask(given, requests.SearchFiles(Grep(path=path, **wanted), read_only))


async def send_input(call: Call, given: InputGiven) -> Any:
    kept = await flow.give(call.server.services, call.who, given.session_id, given.input)
    return {"seq": kept.seq}


async def session_events(call: Call, given: EventsAsked) -> Any:
    read = await read_page(
        call.server.services, call.who, given.session_id, after=given.after, limit=given.limit
    )
    return {"events": [orjson.loads(entry_json(entry)) for entry in read.entries]}


@dataclass(frozen=True, slots=True)
class SessionTool:
    """A tool by its name."""

    name: str
    description: str
    arguments: type[In]
    use: Callable[[Call, Any], Awaitable[Any]]
    reads: bool = False  # and changes nothing


TOOLS = {
    tool.name: tool
    for tool in (
        SessionTool(
            "list_sessions",
            "Sessions that you may see, the newest first.",
            SessionsAsked,
            list_sessions,
            True,
        ),
        SessionTool(
            "bash",
            "Run a command in a shell of the session's jail. It keeps its directory and variables.",
            Command,
            bash,
        ),
        SessionTool("read_file", "Read a file of the session, or a part of it.", FileAsked, read_file, True),
        SessionTool("write_file", "Give a file of the session this content.", FileWritten, write_file),
        SessionTool("edit_file", "Make edits in a file of the session, all or none.", Edits, edit_file),
        SessionTool("apply_patch", "Do all that a patch says, or nothing.", Patch, apply_patch),
        SessionTool("glob", "Find files of the session by path, the newest first.", FilesAsked, glob, True),
        SessionTool("grep", "Search the session's files with a regular expression.", Searched, grep, True),
        SessionTool(
            "send_input",
            "Ask something of the session: a prompt for its agent, an approval, a pause.",
            InputGiven,
            send_input,
        ),
        SessionTool(
            "session_events",
            "What happened in the session, after an event on.",
            EventsAsked,
            session_events,
            True,
        ),
    )
}


async def use(call: Call, name: str, arguments: Mapping[str, Any], session_id: str) -> Any:
    """Use a tool; `session_id` is meant where the arguments name none."""
    tool = TOOLS.get(name)
    if tool is None:
        raise BadRequest(f"There is no tool {echo(name, 40)}. There are: {', '.join(TOOLS)}.")
    given = dict(arguments)
    if issubclass(tool.arguments, InSession) and not given.get("session_id"):
        if not session_id:
            raise BadRequest("`session_id` is missing. list_sessions tells what there is.")
        given["session_id"] = session_id
    try:
        parsed = tool.arguments.model_validate(given)
    except ValidationError as error:
        wrong = error.errors(include_input=False, include_url=False)[:MAX_FAULTS]
        raise BadRequest(
            f"{name}: {'; '.join(validation_messages.describe_with_location(each) for each in wrong)}."
        ) from None
    return await tool.use(call, parsed)
