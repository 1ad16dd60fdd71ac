"""apply_patch: several files at once, by an envelope or a unified diff, all or nothing."""

from typing import ClassVar

from hutch.agent.tools.seam import Arguments, Context, ToolResult
from hutch.domain.errors import HutchError
from hutch.edit.apply import read_operations


class ApplyPatchArguments(Arguments):
    patch: str

    def touched(self) -> tuple[str, ...]:
        """All the paths that it names. One that cannot be read touches nothing: it will be refused."""
        try:
            operations = read_operations(self.patch)
        except HutchError:
            return ()
        named = ((each.path, each.move_to, each.otherwise) for each in operations)
        return tuple(path for paths in named for path in paths if path)


class ApplyPatch:
    name: ClassVar[str] = "apply_patch"
    description: ClassVar[str] = (
        "Change several files at once: a unified diff, or '*** Begin Patch' with '*** Add File: P', "
        "'*** Update File: P' ('*** Move to: P', '@@' context, ' ', '-' and '+' lines), "
        "'*** Delete File: P', '*** End Patch'. All of it is done, or nothing."
    )
    arguments: ClassVar[type[Arguments]] = ApplyPatchArguments
    parallel: ClassVar[bool] = False

    async def __call__(self, given: ApplyPatchArguments, context: Context) -> ToolResult:
        edited = await context.workspace.apply_patch(given.patch)
        for change in edited.changes:
            if change.after:
                context.read[change.path] = change.after
        data = {"diff": edited.diff, "changed": [change.path for change in edited.changes]}
        return ToolResult(edited.text, data=data, changes=edited.changes)
