"""glob: files by their path, the newest first."""

from typing import ClassVar

from pydantic import Field

from hutch.agent.tools.paths import really
from hutch.agent.tools.seam import Arguments, Context, ToolResult


class GlobArguments(Arguments):
    pattern: str
    path: str = ""
    limit: int = Field(200, ge=1, le=5000)

    def searched(self) -> str:
        return self.path


class Glob:
    name: ClassVar[str] = "glob"
    description: ClassVar[str] = "Find files by path, newest first: '**/*.py', 'src/*.{ts,tsx}'."
    arguments: ClassVar[type[Arguments]] = GlobArguments
    parallel: ClassVar[bool] = True

    async def __call__(self, given: GlobArguments, context: Context) -> ToolResult:
        path = await really(given.path, context)
        found = await context.workspace.glob(
            context.jail,
            given.pattern,
            path=path,
            limit=given.limit,
            ignore=context.ignore,
            hidden=context.hides and context.hides(self.name, path),
        )
        data = {"paths": found.paths, "total": found.total, "cut": found.cut}
        if not found.paths:
            return ToolResult("No file fits. Try '**/*' to see what there is.", data=data)
        cut = f"({found.total:,} in all; the newest {given.limit} are shown. Narrow it, or raise limit.)"
        return ToolResult("\n".join([*found.paths, *([cut] if found.cut else [])]), data=data)
