"""The agent's file tools for the sessions of a server: the same arguments and results, and a `session_id`."""

from typing import Any, cast

from pydantic import Field, create_model

from hutch.agent.tools.interface import Tool
from hutch.domain.errors import BadRequest
from hutch.domain.relative_path import parse_path
from hutch.gateway.mcp.session_tool_and_call_types import Call, SessionArguments, SessionTool
from hutch.gateway.mcp.tool_titles_and_output_schemas import OUTPUTS, TITLES
from hutch.jail.policy import WORKSPACE
from hutch.sessions import file_and_command_requests as requests
from hutch.sessions import file_tools_for_users
from hutch.system.lazy_dataclass import dataclass

OF_THE_SESSION = {"session_id", "if_hash"}  # arguments that the agent's tools do not have


class HashArguments(SessionArguments):
    if_hash: str | None = Field(
        None,
        max_length=64,
        description="Only if the file still has this SHA-256: that of read_file or of your last change.",
    )


@dataclass(frozen=True, slots=True)
class FileTool:
    """Calls one of the agent's tools in a session."""

    tool: Tool

    async def __call__(self, call: Call, args: Any) -> requests.ToolAnswer:
        name, arguments = self.tool.name, args.model_dump(exclude=OF_THE_SESSION, exclude_unset=True)
        if "path" in arguments:
            path = arguments["path"].removeprefix(f"{WORKSPACE}/")
            arguments["path"] = parse_path(path, or_root=hasattr(args, "searched"))
        if self.tool.parallel:
            read_only = await call.is_read_only(args)
            return await call.ask(args, requests.ReadWithTool(name, arguments, read_only))
        if_hash = getattr(args, "if_hash", None)
        if if_hash is None and any(each.get("old") is None for each in arguments.get("edits", ())):
            raise BadRequest(
                f"{name}: edits by line number need if_hash, since the file may have changed after you read "
                "it. It is the `sha256` of read_file, or of your last change."
            )
        return await call.ask(args, requests.ChangeWithTool(name, arguments, if_hash))


def _arguments(tool: Tool) -> type[SessionArguments]:
    """The arguments of a tool, and the session."""
    base = HashArguments if tool.name in ("write_file", "edit_file") else SessionArguments
    bases: Any = (tool.arguments, base)
    return cast("type[SessionArguments]", create_model(f"Session{tool.arguments.__name__}", __base__=bases))


FILE_TOOLS = tuple(
    SessionTool(
        tool.name,
        TITLES[tool.name],
        tool.description,
        _arguments(tool),
        OUTPUTS[tool.name],
        FileTool(tool),
        tool.parallel,
    )
    for tool in file_tools_for_users.FILE_TOOLS
)
