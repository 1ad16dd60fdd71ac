"""The agent's tools for any MCP client: the same names, arguments and answers.

An answer is the text that a model reads and, beside it, the same as structured
content. A refusal is an answer too, marked as an error, with all it says: raised
instead, it would reach the client as "Error executing tool".
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

import hutch
from hutch.flows.tool_calls import Tools
from hutch.gateway.mcp.messages import HEAD_BYTES, MAX_BYTES, TAIL_BYTES, refusal, too_long

# Of a client that has closed its end: calls that were made before may still be answered. Clients wait two
# seconds for a server to leave.
LAST_ANSWERS_TIMEOUT_S, POLL_INTERVAL_S = 1.0, 0.02
MAX_ID_OFFSET_CHARS = 40  # letters, when a message is an answer
Write = Callable[[bytes], Awaitable[None]]


def make_server(tools: Tools) -> Server[Any]:
    """An MCP server that uses these tools, for one client or many."""
    network = tools.context.jail.policy.network
    listed = [
        Tool(
            name=spec.name,
            description=spec.description,
            input_schema=dict(spec.parameters),
            annotations=ToolAnnotations(
                read_only_hint=tools.toolbox.parallel(spec.name),
                open_world_hint=bool(network) and spec.name in ("bash", "run_tests"),
            ),
        )
        for spec in tools.toolbox.specs
    ]

    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=listed)

    async def call_tool(request: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        result = await tools.call(params.name, params.arguments or {}, caller=_caller(request))
        return CallToolResult(
            content=[TextContent(type="text", text=result.text)],
            structured_content=dict(result.data),
            is_error=not result.ok,
        )

    return Server(
        "hutch",
        version=hutch.__version__,
        instructions=_instructions(tools),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _caller(request: ServerRequestContext[Any]) -> str:
    """Who calls: by the session of the older protocol, and without one by the name that it gives itself."""
    headers = request.request.headers if request.request is not None else {}
    if session := headers.get(MCP_SESSION_ID_HEADER):
        return f"session {session}"
    given = request.session.client_params
    return f"client {given.client_info.name} {given.client_info.version}" if given else ""


async def serve_stream(tools: Tools, incoming: AsyncIterator[bytes], write: Write) -> None:
    """Speak with one client, in lines, until it has said its last."""
    server = make_server(tools)
    # The library reads and writes files in threads that nobody can interrupt. This is all it wants of them.
    lines: Any = _Lines(incoming, write)
    async with stdio_server(lines, lines) as (read, send):
        await server.run(read, send, server.create_initialization_options())


class _Lines:
    """What the library takes for two text files.

    The end of what comes ends the calls that are under way, so it is held back for a moment.
    """

    def __init__(self, incoming: AsyncIterator[bytes], write: Write) -> None:
        self._incoming = incoming
        self._write = write
        self._unanswered = 0  # at most: it is only for how long to wait in the end

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
        await self._write(text.encode())
        self._unanswered -= '"id"' in text[:MAX_ID_OFFSET_CHARS]

    async def flush(self) -> None:
        """There is nothing held back."""


class _Message:
    """One message as it comes in pieces; of one that is too long only the ends are kept."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._bytes = 0
        self._head = self._tail = b""

    def add(self, data: bytes) -> None:
        self._bytes += len(data)
        self._parts.append(data)
        if self._bytes > MAX_BYTES:
            kept = b"".join(self._parts)
            self._head = self._head or kept[:HEAD_BYTES]
            self._tail, self._parts = (self._tail + kept)[-TAIL_BYTES:], []

    def take(self) -> tuple[bytes, bytes | None]:
        """The message, and what to answer instead of reading it."""
        line, long = b"".join(self._parts), self._bytes > MAX_BYTES
        answer = too_long(self._head, self._tail) if long else refusal(line) if line.strip() else None
        self.__init__()  # type: ignore[misc]
        return line, answer


def _instructions(tools: Tools) -> str:
    jail = tools.context.jail
    network = f"only {', '.join(jail.policy.network)}" if jail.policy.network else "none"
    return (
        f"Tools on the directory {tools.context.workspace.record.source}, which commands find at "
        f"{jail.workspace}. They run in a jail: nothing else of the machine can be read or changed. "
        f"Network: {network}. Paths are relative to the directory. bash keeps its directory and variables "
        "from call to call. Changes are made in place; the state before each is kept."
    )
