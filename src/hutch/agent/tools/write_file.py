"""write_file: a whole file, new or over what was there."""

from typing import ClassVar

from hutch.agent.tools.paths import existing
from hutch.agent.tools.seam import Arguments, Context, ToolResult
from hutch.domain.errors import Conflict, NotFound
from hutch.edit.encoding import rewritten


class WriteFileArguments(Arguments):
    path: str
    content: str

    def touched(self) -> tuple[str, ...]:
        return (self.path,)


class WriteFile:
    name: ClassVar[str] = "write_file"
    description: ClassVar[str] = (
        "Write a whole file, new or in place of the old one; directories are made. To change part of a file "
        "use edit_file."
    )
    arguments: ClassVar[type[Arguments]] = WriteFileArguments
    parallel: ClassVar[bool] = False

    async def __call__(self, given: WriteFileArguments, context: Context) -> ToolResult:
        path, kept = await existing(given.path, context), ""
        try:
            present = (await context.workspace.stat(path, hashed=True)).sha256
        except NotFound:
            present = None
        seen = context.read.get(path)
        if present is None:
            data = given.content.encode("utf-8", "surrogateescape")
            change = await context.workspace.create(path, data)
        elif seen is not None and seen != present:
            context.read[path] = present  # it is told once; whoever insists knows
            raise Conflict(
                f"'{path}' was changed by something else since you saw it. Read it again, so that nothing is "
                f"lost, then write it or use edit_file."
            )
        else:
            beginning = (await context.workspace.read_range(path)).data
            data, kept = rewritten(beginning, given.content)
            change = await context.workspace.write(path, data, if_hash=present)
        if change.after:
            context.read[path] = change.after
        lines = given.content.count("\n") + (not given.content.endswith("\n") and bool(given.content))
        return ToolResult(
            f"{change.kind.capitalize()} '{path}' ({lines} lines).{kept}",
            data={"path": path, "sha256": change.after},
            changes=(change,),
        )
