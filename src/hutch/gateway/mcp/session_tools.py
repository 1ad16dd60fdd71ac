"""The tools of MCP clients: see sessions and work in them.

Every tool names its session. Callers have the same rights as over REST. The session's log
records all changes with the caller.
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
from hutch.domain.quoted_text import echo
from hutch.domain.user import Caller
from hutch.flows import sessions as flow
from hutch.flows.log_access import read_page
from hutch.gateway.context import Server
from hutch.gateway.responses import MAX_SIZE, In, cursor
from hutch.gateway.rest.commands import CommandIn
from hutch.gateway.rest.edits_and_search import EditIn, PatchIn, ReplaceIn, edited_json
from hutch.gateway.rest.file_content import Content
from hutch.gateway.rest.file_paths import PathText, parse_path
from hutch.sessions import requests
from hutch.sessions.requests import Request
from hutch.workspace.search import MAX_CONTEXT_LINES, GrepQuery

READ_BYTES = 256 * 1024
MAX_FAULTS = 5
T = TypeVar("T")


class SessionArguments(In):
    """The session that a tool works on."""

    session_id: str = Field("", max_length=80, description="The id that list_sessions returns.")


class ListSessionsArguments(In):
    text: str = Field("", max_length=200, description="Only sessions with this text in their purpose.")
    limit: int = Field(20, ge=1, le=200)
    cursor: str = Field("", max_length=80, description="`next` of the previous result.")


class BashArguments(CommandIn, SessionArguments):
    yield_s: float | None = Field(
        10, ge=0, le=600, description="After this time it continues in the background."
    )


class ReadFileArguments(SessionArguments):
    path: PathText
    start: int = Field(0, ge=0, le=MAX_SIZE, description="The first byte.")
    length: int = Field(READ_BYTES, ge=1, le=READ_BYTES)


class WriteFileArguments(SessionArguments):
    path: PathText
    content: str
    if_hash: str | None = Field(None, max_length=64, description="Only if the file still has this SHA-256.")


class EditFileArguments(EditIn, SessionArguments):
    if_hash: str | None = Field(
        None,
        max_length=64,
        description="`sha256` of read_file, or `after` of your last change. Edits by line number need it.",
    )


class ApplyPatchArguments(PatchIn, SessionArguments):
    pass


class GlobArguments(SessionArguments):
    pattern: str = Field(min_length=1, max_length=10_000, examples=["**/*.py"])
    path: PathText = ""
    limit: int = Field(200, ge=1, le=5000)
    offset: int = Field(0, ge=0, le=MAX_SIZE, description="`next` of the previous result.")


class GrepArguments(SessionArguments):
    pattern: str = Field(min_length=1, max_length=10_000)
    path: PathText = ""
    glob: str | None = Field(None, max_length=10_000)
    ignore_case: bool = False
    context: int = Field(0, ge=0, le=MAX_CONTEXT_LINES)
    limit: int = Field(100, ge=1, le=2000)
    offset: int = Field(0, ge=0, le=MAX_SIZE, description="`next` of the previous result.")
    output: Literal["content", "files", "count"] = "content"


class SendInputArguments(SessionArguments):
    input: AnyInput


class SessionEventsArguments(SessionArguments):
    after: int = Field(0, ge=0, le=MAX_SIZE, description="The number of the last event that you have.")
    limit: int = Field(50, ge=1, le=500)


@dataclass(frozen=True, slots=True)
class Call:
    """The caller and the server of a tool call."""

    server: Server
    caller: Caller

    async def ask(self, args: SessionArguments, request: Request[T]) -> T:
        """Send a request to a session, if the caller may."""
        services = self.server.services
        session = await flow.allowed(
            services, self.caller, args.session_id, "input" if request.changes else "read"
        )
        return await services.host.call(session.id, request, by=self.caller.user.id)

    async def is_read_only(self, args: SessionArguments) -> bool:
        """Whether the caller may read the session but not write to it."""
        services = self.server.services
        return not await flow.may_write(
            services, self.caller, await flow.allowed(services, self.caller, args.session_id)
        )


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
                "last_event": shown.head.seq,
            }
            for shown in found
        ],
        "next": found[-1].session.id if more else None,
    }


async def bash(call: Call, args: BashArguments) -> Any:
    fields = args.model_dump(exclude={"session_id"})
    return await call.ask(args, requests.RunCommand(**fields))


async def read_file(call: Call, args: ReadFileArguments) -> Any:
    services = call.server.services
    session = await flow.allowed(services, call.caller, args.session_id)
    mask = services.redactor.mask
    content = Content(services.host, session.id, parse_path(args.path), call.caller.user.id, mask)
    sha256 = None  # the hash of hidden content would confirm a guess
    if await flow.may_write(services, call.caller, session):
        status = await services.host.call(session.id, requests.StatFile(content.path), by=call.caller.user.id)
        sha256 = status.sha256  # before the content: a change in between is noticed by the next edit
        found = await content.part_across(args.start, args.length, mask)
    else:
        found = await content.part(args.start, args.length)
    text = found.data.decode(errors="replace")
    return {
        "path": found.path,
        "text": text,
        "start": found.start,
        "bytes": len(found.data),
        "size": found.size,
        "sha256": sha256,
    }


async def write_file(call: Call, args: WriteFileArguments) -> Any:
    path, data = parse_path(args.path), args.content.encode(errors="replace")
    return await call.ask(args, requests.WriteFile(path, data, if_hash=args.if_hash))


async def edit_file(call: Call, args: EditFileArguments) -> Any:
    if args.if_hash is None and not all(isinstance(each, ReplaceIn) for each in args.edits):
        raise BadRequest(
            "edit_file: edits by line number need if_hash, since the file may have changed after you read it."
            " It is the `sha256` of read_file, or `after` of your last change."
        )
    return edited_json(await call.ask(args, args.request()))


async def apply_patch(call: Call, args: ApplyPatchArguments) -> Any:
    return edited_json(await call.ask(args, requests.ApplyPatch(args.patch)))


async def glob(call: Call, args: GlobArguments) -> Any:
    path = parse_path(args.path, or_root=True)
    read_only = await call.is_read_only(args)
    return await call.ask(args, requests.FindFiles(args.pattern, path, args.limit, args.offset, read_only))


async def grep(call: Call, args: GrepArguments) -> Any:
    fields = args.model_dump(exclude={"session_id", "path"})
    path = parse_path(args.path, or_root=True)
    read_only = await call.is_read_only(args)
    return await call.ask(args, requests.SearchFiles(GrepQuery(path=path, **fields), read_only))


async def send_input(call: Call, args: SendInputArguments) -> Any:
    accepted = await flow.give(call.server.services, call.caller, args.session_id, args.input)
    return {"seq": accepted.seq}


async def session_events(call: Call, args: SessionEventsArguments) -> Any:
    read = await read_page(
        call.server.services, call.caller, args.session_id, after=args.after, limit=args.limit
    )
    return {"events": [orjson.loads(entry_json(entry)) for entry in read.entries]}


@dataclass(frozen=True, slots=True)
class SessionTool:
    name: str
    description: str
    arguments: type[In]
    use: Callable[[Call, Any], Awaitable[Any]]
    reads: bool = False  # changes nothing


TOOLS = {
    tool.name: tool
    for tool in (
        SessionTool(
            "list_sessions",
            "Sessions that you may see, the newest first.",
            ListSessionsArguments,
            list_sessions,
            True,
        ),
        SessionTool(
            "bash",
            "Run a command in a shell of the session's jail. It keeps its directory and variables.",
            BashArguments,
            bash,
        ),
        SessionTool(
            "read_file", "Read a file of the session, or a part of it.", ReadFileArguments, read_file, True
        ),
        SessionTool(
            "write_file", "Write the content of a file of the session.", WriteFileArguments, write_file
        ),
        SessionTool(
            "edit_file", "Make edits in a file of the session, all or none.", EditFileArguments, edit_file
        ),
        SessionTool(
            "apply_patch", "Apply a patch completely, or not at all.", ApplyPatchArguments, apply_patch
        ),
        SessionTool(
            "glob", "Find files of the session by path, the newest first.", GlobArguments, glob, True
        ),
        SessionTool(
            "grep", "Search the session's files with a regular expression.", GrepArguments, grep, True
        ),
        SessionTool(
            "send_input",
            "Give the session an input: a prompt for its agent, an approval, a pause.",
            SendInputArguments,
            send_input,
        ),
        SessionTool(
            "session_events",
            "The events of the session after a number.",
            SessionEventsArguments,
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
        parsed = tool.arguments.model_validate(args)
    except ValidationError as error:
        wrong = error.errors(include_input=False, include_url=False)[:MAX_FAULTS]
        raise BadRequest(
            f"{name}: {'; '.join(validation_messages.describe_with_location(each) for each in wrong)}."
        ) from None
    return await tool.use(call, parsed)
