"""The MCP protocol, spoken by its official library, over the pipes of a jailed server or over HTTP.

Loaded only where a server is used: the library takes a second.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import Client, MCPError
from mcp.client import Transport
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from hutch.agent.extensions.extension_reply import MAX_MESSAGE_BYTES, ServerReply, render_content
from hutch.agent.extensions.untrusted_tool_description import MAX_TOOLS, DeclaredTool
from hutch.domain.errors import LimitReached, Unavailable
from hutch.jail.interface import Process

MAX_NOISE_LINES = 200  # that are no messages
MAX_MESSAGES = 50_000  # of a server, notifications too
MAX_PAGES = 20  # of the list of tools
STDERR_BYTES = 4096
Incoming = SessionMessage | Exception


class Session(Protocol):
    """A connected server."""

    server: str  # its name and version, as it says
    tools: tuple[DeclaredTool, ...]

    async def call(self, tool: str, arguments: dict[str, Any], timeout_s: float) -> ServerReply:
        """Call a tool. Errors of the server are replies too; ConnectionError when it has left."""
        ...


class McpSession:
    """A session of the library."""

    def __init__(self, client: Client) -> None:
        self._client = client
        about = client.server_info
        self.server = f"{about.name} {about.version}"[:200] if about is not None else ""
        self.tools: tuple[DeclaredTool, ...] = ()

    async def list_tools(self) -> None:
        """Read the list of tools, page by page."""
        found: list[DeclaredTool] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._client.list_tools(cursor=cursor)
            for each in page.tools:
                schema = each.input_schema
                found.append(DeclaredTool(each.name, each.description or "", dict(schema)))
            cursor = page.next_cursor
            if len(found) > MAX_TOOLS:
                raise LimitReached(
                    f"The server lists more than {MAX_TOOLS} tools. Use one with fewer.",
                    limit="extension_tools",
                )
            if not cursor:
                break
        self.tools = tuple(found)

    async def call(self, tool: str, arguments: dict[str, Any], timeout_s: float) -> ServerReply:
        try:
            result = await self._client.call_tool(tool, arguments, read_timeout_seconds=timeout_s)
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                raise ConnectionError from None
            return ServerReply(f"The server answered with an error: {error}", ok=False)
        except (ValidationError, ValueError, RuntimeError) as error:  # a result that is no result
            return ServerReply(f"The server's result cannot be read: {type(error).__name__}.", ok=False)
        structured = result.structured_content
        content = [each.model_dump(mode="json", by_alias=True) for each in result.content]
        text = render_content(content)
        if not text and structured is not None:
            text = json.dumps(structured, ensure_ascii=False)
        return ServerReply(text, ok=not result.is_error)


@asynccontextmanager
async def connect(transport: Transport, *, timeout_s: float) -> AsyncIterator[McpSession]:
    """Connect to a server and read its tools. The block must be left in the task that entered it."""
    client = Client(transport, read_timeout_seconds=timeout_s, cache=None)
    try:
        async with client:
            session = McpSession(client)
            with anyio.fail_after(timeout_s):
                await session.list_tools()
            yield session
    except MCPError as error:
        raise Unavailable(f"The server refused to be used: {error}.") from None


@asynccontextmanager
async def pipes(
    process: Process, on_stderr: Callable[[bytes], None]
) -> AsyncIterator[tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]]:
    """The transport over the pipes of a process: one message a line."""
    to_client, from_server = anyio.create_memory_object_stream[Incoming](0)
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage](0)

    async def write() -> None:
        assert process.stdin is not None
        async with from_client:
            async for each in from_client:
                data = each.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
                try:
                    await process.stdin.write(data + b"\n")
                except OSError:  # the server has ended; the reader reports it
                    return

    async def read() -> None:
        async with to_client:
            async for line in _lines(process):
                try:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    continue
                await to_client.send(SessionMessage(message))

    async def read_errors() -> None:
        assert process.stderr is not None
        while data := await process.stderr.read():
            on_stderr(data)

    async with anyio.create_task_group() as group:
        group.start_soon(write)
        group.start_soon(_quietly, read)
        group.start_soon(read_errors)
        try:
            yield from_server, to_server
        finally:
            group.cancel_scope.cancel()


async def _quietly(read: Callable[[], Any]) -> None:
    """End the stream when the client has left, or the server's output is unusable."""
    try:
        await read()
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, Unavailable):
        return


async def _lines(process: Process) -> AsyncIterator[bytes]:
    """The lines of a server's output. A line that is too long ends it, and so do too many."""
    assert process.stdout is not None
    waiting, noise, messages = bytearray(), 0, 0
    while data := await process.stdout.read():
        start = len(waiting)
        waiting += data
        while (end := waiting.find(b"\n", start)) >= 0:
            line = bytes(waiting[:end]).strip()
            del waiting[: end + 1]
            start = 0
            if line.startswith(b"{"):
                messages += 1
                if messages > MAX_MESSAGES:
                    raise Unavailable("The server sent too many messages.")
                yield line
            elif line:
                noise += 1
        if len(waiting) > MAX_MESSAGE_BYTES or noise > MAX_NOISE_LINES:
            raise Unavailable("The server wrote too much that is no message.")
