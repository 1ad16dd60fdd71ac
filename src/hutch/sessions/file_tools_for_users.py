"""The agent's file tools, used by people and by other agents in a session.

The tools are the same as in a run of the agent: the same arguments, texts, warnings and hints. Only the
caller differs; it may have read access only.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hutch.agent.tools.glob_and_grep import Glob, GrepTool
from hutch.agent.tools.interface import Arguments, Context, Tool, ToolResult
from hutch.agent.tools.list_directory import ListDirectory
from hutch.agent.tools.read_file import ReadFile
from hutch.agent.tools.search_code import Outline, SearchCode
from hutch.agent.tools.tool_schemas_and_dispatch import Toolbox
from hutch.agent.tools.write_edit_and_patch import ApplyPatch, EditFile, WriteFile
from hutch.domain.redaction import Redactor
from hutch.edit.file_operation_types import FileChange
from hutch.sessions.file_and_command_requests import ChangeWithTool, ReadWithTool, ToolAnswer
from hutch.sessions.sandbox import Sandbox
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.rule_based_search_filter import HiddenFiles, hide_secrets

FILE_TOOLS: tuple[Tool, ...] = (
    ReadFile(),
    WriteFile(),
    EditFile(),
    ApplyPatch(),
    ListDirectory(),
    Glob(),
    GrepTool(),
    SearchCode(),
    Outline(),
)
PARSER = Toolbox(FILE_TOOLS)


@dataclass(frozen=True, slots=True)
class UsedTool:
    """The answer to a call, and the files that it has changed."""

    answer: ToolAnswer
    changes: tuple[FileChange, ...] = ()


def parse_arguments(tool: str, arguments: Mapping[str, Any]) -> Arguments | ToolResult:
    """The arguments of a call, or a result that says what is wrong with them."""
    return PARSER.parse(tool, json.dumps(dict(arguments)))


async def use_tool(
    sandbox: Sandbox,
    redactor: Redactor,
    request: ReadWithTool | ChangeWithTool,
    hidden: HiddenFiles | None = None,
) -> UsedTool:
    """Use a file tool. An error is an answer too. A search leaves out the `hidden` files."""
    toolbox = Toolbox(FILE_TOOLS, redactor)
    parsed = toolbox.parse(request.tool, json.dumps(dict(request.arguments)))
    if isinstance(parsed, ToolResult):
        return UsedTool(_answer(parsed, "bad_request"))
    if request.changes == toolbox.parallel(request.tool):
        raise ValueError(f"{type(request).__name__} does not fit {request.tool}.")
    result = await toolbox.use(request.tool, parsed, _context(sandbox, redactor, request, hidden))
    return UsedTool(_answer(result), result.changes)


def _context(
    sandbox: Sandbox,
    redactor: Redactor,
    request: ReadWithTool | ChangeWithTool,
    hidden: HiddenFiles | None,
) -> Context:
    context = Context(
        sandbox.workspace, sandbox.jail, sandbox.shells, redactor=redactor, embedder=sandbox.embedder
    )
    if hidden is not None:
        context = replace(context, hides=lambda *_: hidden)
    match request:
        case ReadWithTool(read_only=True):
            hides = hide_secrets(redactor.mask, hidden)
            return replace(context, mask=redactor.mask, hides=lambda *_: hides)
        case ChangeWithTool(if_hash=if_hash):
            return replace(context, if_hash=if_hash)
    return context


def _answer(result: ToolResult, error: str = "") -> ToolAnswer:
    data = dict(result.data)
    if not result.ok:
        data = {"error": error or data.get("error", "failed"), "detail": result.text}
    image = result.image
    return ToolAnswer(
        text=result.text,
        ok=result.ok,
        data=data,
        image=image.data if image else "",
        media_type=image.header.media_type if image else "",
    )
