"""The tools on sessions as an MCP server, for clients of /mcp."""

from typing import Any

import orjson
from mcp.server import Server as McpServer
from mcp.server import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
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
from hutch.domain.errors import HutchError
from hutch.gateway.gateway_context import Server
from hutch.gateway.http_error_table import error_status
from hutch.gateway.mcp.session_tool_and_call_types import Call
from hutch.gateway.mcp.tool_registry_and_session_tools import TOOLS, use
from hutch.gateway.request_and_response_bodies import to_json
from hutch.sessions.file_and_command_requests import ToolAnswer

SESSION_HEADER = "Hutch-Session"
CALLER = "hutch.caller"  # in the scope of a request
INSTRUCTIONS = (
    "Tools on the sessions of a Hutch server. A session is a workspace in a jail with a log of all "
    "events. create_session opens one, and list_sessions returns their ids; every other tool takes one as "
    "session_id. send_prompt gives its agent a task, and wait returns the result. Paths are relative to the "
    "session's workspace."
)


def make_manager(server: Server) -> StreamableHTTPSessionManager:
    """The session manager. Requests are stateless: each one is authenticated."""
    return StreamableHTTPSessionManager(
        make_server(server),
        stateless=True,
        max_request_body_size=int(server.loaded.settings.server.body_bytes),
    )


def make_server(server: Server) -> McpServer[Any]:
    listed = [
        Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema=tool.arguments.model_json_schema(),
            output_schema=tool.output_schema,
            annotations=ToolAnnotations(read_only_hint=tool.reads),
        )
        for tool in TOOLS.values()
    ]

    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=listed)

    async def call_tool(request: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        http_request: Any = request.request
        call = Call(server, http_request.scope[CALLER])
        session_id = http_request.headers.get(SESSION_HEADER, "")[:80]
        try:
            answer, failed = await use(call, params.name, params.arguments or {}, session_id), False
        except HutchError as error:
            answer, failed = {"error": error_status(error).code, "detail": str(error)}, True
        if isinstance(answer, ToolAnswer):
            return _tool_result(answer)
        text = server.redactor.redact(to_json(answer).decode())
        data: dict[str, Any] = orjson.loads(text)
        return CallToolResult(
            content=[TextContent(type="text", text=text)], structured_content=data, is_error=failed
        )

    return McpServer(
        "hutch",
        version=hutch.__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _tool_result(answer: ToolAnswer) -> CallToolResult:
    """The result of one of the agent's tools, which holds no secret."""
    content: list[Any] = [TextContent(type="text", text=answer.text)]
    if answer.image:
        content.append(ImageContent(type="image", data=answer.image, mime_type=answer.media_type))
    return CallToolResult(content=content, structured_content=dict(answer.data), is_error=not answer.ok)
