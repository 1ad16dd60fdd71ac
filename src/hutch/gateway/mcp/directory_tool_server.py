"""The agent's tools for any MCP client: the same names, arguments and results.

A result has the text that a model reads, and the same as structured content. A refusal
is a result too, marked as an error. As an exception it would reach the client only as
"Error executing tool".
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ImageContent,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

import hutch
from hutch.flows.external_tool_calls import Tools
from hutch.gateway.mcp.early_handshake import NAME, instructions
from hutch.gateway.mcp.invalid_messages import HEAD_BYTES, MAX_BYTES, TAIL_BYTES, refusal, too_long
from hutch.gateway.mcp.tool_titles_and_output_schemas import OUTPUTS, TITLES

# After a client has closed its input, its earlier calls may still be answered. Clients wait two seconds for
# a server to exit.
LAST_ANSWERS_TIMEOUT_S, POLL_INTERVAL_S = 1.0, 0.02
MAX_ID_OFFSET_CHARS = 40  # of the id in a response
Write = Callable[[bytes], Awaitable[None]]


def make_server(tools: Tools) -> Server[Any]:
    """An MCP server that uses these tools, for one client or many."""
    network = tools.context.jail.policy.network
    listed = [
        Tool(
            name=spec.name,
            title=TITLES.get(spec.name),
            description=spec.description,
            input_schema=dict(spec.parameters),
            output_schema=OUTPUTS.get(spec.name),
            annotations=ToolAnnotations(
                read_only_hint=tools.toolbox.parallel(spec.name),
                open_world_hint=bool(network) and spec.name in ("bash", "exec", "run_tests"),
            ),
        )
        for spec in tools.toolbox.specs
    ]

    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=listed)

    async def call_tool(request: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        result = await tools.call(params.name, params.arguments or {}, caller=_caller(request))
        content: list[Any] = [TextContent(type="text", text=result.text)]
        if result.image is not None:
            shown = result.image
            content.append(ImageContent(type="image", data=shown.data, mime_type=shown.header.media_type))
        return CallToolResult(
            content=content,
            structured_content=dict(result.data),
            is_error=not result.ok,
        )

    directory = str(tools.context.workspace.record.source)
    return Server(
        NAME,
        version=hutch.__version__,
        instructions=instructions(directory, tools.context.jail.workspace, network),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _caller(request: ServerRequestContext[Any]) -> str:
    """The caller: the session of the older protocol, else the name that the client states."""
    headers = request.request.headers if request.request is not None else {}
    if session := headers.get(MCP_SESSION_ID_HEADER):
        return f"session {session}"
    client = request.session.client_params
    return f"client {client.client_info.name} {client.client_info.version}" if client else ""


async def serve_stream(
    tools: Tools, incoming: AsyncIterator[bytes], write: Write, *, answered: set[str | int] | None = None
) -> None:
    """Serve one client, a message per line, until its input ends.

    The requests `answered` were answered already: the answers to them are dropped.
    """
    server = make_server(tools)
    # The library reads files in threads that cannot be interrupted. These objects have the methods it uses.
    lines: Any = _Lines(incoming, write, set() if answered is None else answered)
    async with stdio_server(lines, lines) as (read, send):
        await server.run(read, send, server.create_initialization_options())


class _Lines:
    """Stands in for the two text files of the library.

    The end of the input cancels calls in progress, so it is delayed for a moment.
    """

    def __init__(self, incoming: AsyncIterator[bytes], write: Write, answered: set[str | int]) -> None:
        self._incoming = incoming
        self._write = write
        self._answered = answered
        self._unanswered = 0  # an upper bound, for the wait at the end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        message = _Message()
        async for data in self._incoming:
            *ends, rest = data.split(b"\n")
            for end in ends:
                message.add(end)
                line, answer = message.take()
                if answer:
                    await self._write(answer)
                elif answer is None and line.strip():
                    self._unanswered += b'"method"' in line and b'"id"' in line
                    yield line
            message.add(rest)
        for _ in range(int(LAST_ANSWERS_TIMEOUT_S / POLL_INTERVAL_S)):
            if self._unanswered <= 0:
                break
            await asyncio.sleep(POLL_INTERVAL_S)

    async def write(self, text: str) -> None:
        if self._answered and (id_ := json.loads(text).get("id")) in self._answered:
            self._answered.discard(id_)
        else:
            await self._write(text.encode())
        self._unanswered -= '"id"' in text[:MAX_ID_OFFSET_CHARS]

    async def flush(self) -> None:
        """Do nothing: writes are not buffered."""


class _Message:
    """Collects the parts of one message; stores only the ends of one that is too long."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._bytes = 0
        self._head = self._tail = b""

    def add(self, data: bytes) -> None:
        self._bytes += len(data)
        self._parts.append(data)
        if self._bytes > MAX_BYTES:
            received = b"".join(self._parts)
            self._head = self._head or received[:HEAD_BYTES]
            self._tail, self._parts = (self._tail + received)[-TAIL_BYTES:], []

    def take(self) -> tuple[bytes, bytes | None]:
        """The message, and the response if it cannot be parsed."""
        line, long = b"".join(self._parts), self._bytes > MAX_BYTES
        answer = too_long(self._head, self._tail) if long else refusal(line) if line.strip() else None
        self.__init__()  # type: ignore[misc]
        return line, answer
