"""edit_file: exact replacements, line ranges and insertions in one file, all or none."""

from typing import Any, ClassVar

from pydantic import Field

from hutch.agent.tools.paths import existing
from hutch.agent.tools.seam import Arguments, Context, ToolResult


class Edit(Arguments):
    old: str | None = None
    new: str
    replace_all: bool = False
    start_line: int | None = None
    end_line: int | None = None
    insert_line: int | None = None


class EditFileArguments(Arguments):
    path: str
    edits: list[Edit] = Field(min_length=1, max_length=500)

    def touched(self) -> tuple[str, ...]:
        return (self.path,)


class EditFile:
    name: ClassVar[str] = "edit_file"
    description: ClassVar[str] = (
        "Change a file. Each edit is {old, new, replace_all} (old: the text as it is, with enough context to "
        "be unique), {start_line, end_line, new}, or {insert_line, new} (after that line; 0 is the top). "
        "All edits are made, or none."
    )
    arguments: ClassVar[type[Arguments]] = EditFileArguments
    parallel: ClassVar[bool] = False

    async def __call__(self, given: EditFileArguments, context: Context) -> ToolResult:
        path = await existing(given.path, context)
        edits: list[dict[str, Any]] = [edit.model_dump(exclude_unset=True) for edit in given.edits]
        edited = await context.workspace.edit(path, edits)
        for change in edited.changes:
            if change.after:
                context.read[change.path] = change.after
        data = {"path": path, "diff": edited.diff, "changed": bool(edited.changes)}
        return ToolResult(edited.text, data=data, changes=edited.changes)
