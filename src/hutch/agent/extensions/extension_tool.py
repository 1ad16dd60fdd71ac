"""A tool of an approved extension, as the agent calls it."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from fnmatch import fnmatchcase
from typing import Any

from pydantic import ConfigDict

from hutch.agent.extensions.extension_approvals import Trial
from hutch.agent.extensions.extension_host import ExtensionHost
from hutch.agent.extensions.extension_manifest import Manifest
from hutch.agent.extensions.extension_reply import mark_reply
from hutch.agent.extensions.untrusted_tool_description import (
    SEPARATOR,
    DeclaredTool,
    clean_schema,
    describe_for_model,
    full_name,
)
from hutch.agent.long_output_files import save_output
from hutch.agent.text_for_model import shortened
from hutch.agent.tools.interface import Arguments, Context, ToolResult
from hutch.domain.current_actor_and_author import current_actor
from hutch.domain.errors import Unavailable


class ExtensionArguments(Arguments):
    """The arguments of an extension's tool: the extension checks them itself."""

    model_config = ConfigDict(frozen=True, extra="allow")


class ExtensionTool:
    """A tool of an extension."""

    parallel = False
    arguments: type[Arguments] = ExtensionArguments

    def __init__(self, manifest: Manifest, tool: DeclaredTool, host: ExtensionHost) -> None:
        self.manifest = manifest
        self.name = full_name(manifest.name, tool.name)
        self.description = describe_for_model(manifest.name, tool)
        self.input_schema: Mapping[str, Any] = clean_schema(tool.schema)
        self._tool = tool
        self._host = host

    @property
    def id(self) -> str:
        """Its extension and its own name, as personas and rules of helpers name it."""
        return f"{self.manifest.name}{SEPARATOR}{self._tool.name}"

    async def __call__(self, args: ExtensionArguments, context: Context) -> ToolResult:
        if context.jail.unsafe:
            raise Unavailable("Extensions need a jail, and this session has none.")
        may_write = context.working(current_actor()) if self.manifest.workspace == "write" else nullcontext()
        with may_write:
            reply = await self._host.call(self.manifest, self._tool.name, args.model_dump(mode="json"))
        text, limit = reply.text, self.manifest.output_chars
        if len(text) > limit:
            text = context.redactor.redact(text)  # first: half of a secret is not recognised
            path = await save_output(context.jail, f"/tmp/hutch-output-{next(context.outputs)}.txt", text)
            text = shortened(text, limit, rest=f"all of it is in {path}" if path else "")
        return ToolResult(mark_reply(self.manifest.name, text, limit + 200), ok=reply.ok)


def approved_tools(
    manifest: Manifest, trial: Trial, host: ExtensionHost, wanted: Iterable[str] = ("*",)
) -> list[ExtensionTool]:
    """The tools of an approved extension that its manifest and the persona select."""
    found: dict[str, ExtensionTool] = {}
    patterns = tuple(wanted)
    for each in trial.tools:
        is_selected = manifest.uses(each.name) and any(fnmatchcase(each.name, one) for one in patterns)
        tool = ExtensionTool(manifest, each, host)
        if is_selected and not each.problem and tool.name not in found:
            found[tool.name] = tool
    return list(found.values())


def selected_tools(name: str, named: Sequence[str]) -> tuple[str, ...]:
    """The patterns of an extension's tools among names such as `files` and `files__read_*`."""
    patterns = []
    for each in named:
        extension, found, tool = each.partition(SEPARATOR)
        if fnmatchcase(name, extension):
            patterns.append(tool if found else "*")
    return tuple(patterns)


def is_named(id: str, named: Sequence[str]) -> bool:
    """True if names such as `files` and `files__read_*` include this tool."""
    name, _, tool = id.partition(SEPARATOR)
    return any(fnmatchcase(tool, pattern) for pattern in selected_tools(name, named))
