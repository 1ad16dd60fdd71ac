"""write_file, edit_file and apply_patch: write a whole file, edit one, or change several at once."""

from collections.abc import Iterable
from typing import Any, ClassVar

from pydantic import Field

from hutch.agent.tools.interface import Arguments, Context, ToolResult
from hutch.agent.tools.model_written_paths import existing
from hutch.domain.current_actor_and_author import AGENT, HUTCH
from hutch.domain.errors import Conflict, HutchError, NotFound
from hutch.edit.atomic_apply import read_operations
from hutch.edit.edit_result import whole_file_warning
from hutch.edit.encoding_detection import encode_like
from hutch.edit.file_operation_types import FileChange


class WriteFileArguments(Arguments):
    path: str
    content: str

    def touched(self) -> tuple[str, ...]:
        return (self.path,)


class WriteFile:
    name: ClassVar[str] = "write_file"
    description: ClassVar[str] = (
        "Write a whole file and its directories. To change part of a file use edit_file."
    )
    arguments: ClassVar[type[Arguments]] = WriteFileArguments
    parallel: ClassVar[bool] = False

    async def __call__(self, args: WriteFileArguments, context: Context) -> ToolResult:
        path, note = await existing(args.path, context), ""
        before: bytes | None = None  # None: there was no such file
        is_whole = True  # False: the file was too large to be read at once
        try:
            present = (await context.workspace.stat(path, hashed=True)).sha256
        except NotFound:
            present = None
        seen = context.read.get(path)
        if context.if_hash is not None:
            present = context.if_hash  # a file that has changed, or is missing, is refused
        if present is None:
            data = args.content.encode("utf-8", "surrogateescape")
            change = await context.workspace.create(path, data)
        else:
            _check_unchanged(path, present, seen, context)
            if seen is None and context.if_hash is None:
                await _check_author(path, present, context)
            found = await context.workspace.read_range(path)
            is_whole = found.size == len(found.data)
            before = found.data
            data, note = encode_like(found.data, args.content)
            change = await context.workspace.write(path, data, if_hash=present)
        context.read[path] = change.after or ""
        warning = ""
        if is_whole:
            warning = await context.workspace.work(whole_file_warning, path, before, data)
        lines = args.content.count("\n") + (not args.content.endswith("\n") and bool(args.content))
        note += f" Warning: {warning}." if warning else ""
        return ToolResult(
            f"{change.kind.capitalize()} '{path}' ({lines} line{'' if lines == 1 else 's'}).{note}",
            data={"path": path, "sha256": change.after, "warnings": [warning] if warning else []},
            changes=(change,),
        )


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
        "Change a file. Each edit is {old, new, replace_all} (old: exact text that is unique), "
        "{start_line, end_line, new} or {insert_line, new} (after that line; 0 is the top). "
        "All edits are made, or none."
    )
    arguments: ClassVar[type[Arguments]] = EditFileArguments
    parallel: ClassVar[bool] = False

    async def __call__(self, args: EditFileArguments, context: Context) -> ToolResult:
        path = await existing(args.path, context)
        edits: list[dict[str, Any]] = [edit.model_dump(exclude_unset=True) for edit in args.edits]
        seen = context.read.get(path)
        if context.if_hash is not None:
            edited = await context.workspace.edit(path, edits, if_hash=context.if_hash)
        elif seen is not None and any(edit.old is None for edit in args.edits):  # by line number
            present = (await context.workspace.stat(path, hashed=True)).sha256
            _check_unchanged(path, present, seen, context)
            edited = await context.workspace.edit(path, edits, if_hash=present)
        else:
            edited = await context.workspace.edit(path, edits)
        _note(edited.changes, context)
        data = {
            "path": path,
            "diff": edited.diff,
            "changed": bool(edited.changes),
            "sha256": next((each.after for each in edited.changes if each.path == path), None),
            "warnings": [warning for file in edited.files for warning in file.warnings],
        }
        return ToolResult(edited.text, data=data, changes=edited.changes)


class ApplyPatchArguments(Arguments):
    patch: str

    def touched(self) -> tuple[str, ...]:
        """All paths that the patch names; none for an invalid patch, which will be refused."""
        try:
            operations = read_operations(self.patch)
        except HutchError:
            return ()
        named = ((each.path, each.move_to, each.otherwise) for each in operations)
        return tuple(path for paths in named for path in paths if path)


class ApplyPatch:
    name: ClassVar[str] = "apply_patch"
    description: ClassVar[str] = (
        "Change several files: a unified diff, or '*** Begin Patch' with '*** Add File: P', "
        "'*** Update File: P' ('*** Move to: P', '@@' context, ' ', '-' and '+' lines), "
        "'*** Delete File: P', '*** End Patch'. All changes are made, or none."
    )
    arguments: ClassVar[type[Arguments]] = ApplyPatchArguments
    parallel: ClassVar[bool] = False

    async def __call__(self, args: ApplyPatchArguments, context: Context) -> ToolResult:
        edited = await context.workspace.apply_patch(args.patch)
        _note(edited.changes, context)
        data = {
            "diff": edited.diff,
            "changed": [change.path for change in edited.changes],
            "warnings": [f"{file.path}: {warning}" for file in edited.files for warning in file.warnings],
        }
        return ToolResult(edited.text, data=data, changes=edited.changes)


def _check_unchanged(path: str, present: str | None, seen: str | None, context: Context) -> None:
    """Refuse once to change a file that has changed since the model saw it; a second call is on purpose."""
    if present is not None and seen is not None and seen != present:
        context.read[path] = present
        raise Conflict(
            f"'{path}' was changed by something else since you read it. Read it again, so that no change "
            f"is lost, then repeat the call or use edit_file with the old text."
        )


async def _check_author(path: str, present: str, context: Context) -> None:
    """Refuse once to replace a file that a person changed last and that the model has never read."""
    author = await context.last_author(path) if context.last_author else ""
    if author and author not in (AGENT, HUTCH):
        context.read[path] = present
        raise Conflict(
            f"'{path}' has changes of a person that you have not read. Read it first, so that no change is "
            f"lost, then repeat the call or use edit_file."
        )


def _note(changes: Iterable[FileChange], context: Context) -> None:
    """Remember the hashes of files that the model now knows. It saw only a part of the result: if the rest
    was changed by something else, its line numbers are still those of the content it has read."""
    for change in changes:
        if change.after and context.read.get(change.path) in (None, change.before):
            context.read[change.path] = change.after
