"""A patch in memory: the files after its operations, over the files in the workspace."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Literal

from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.edit.edit_result import EditedFile, EditResult, file_result
from hutch.edit.encoded_file_text import Text
from hutch.edit.encoding_detection import decode
from hutch.edit.file_edits import refuse_placeholder
from hutch.edit.file_operation_types import Delete, Move, Operation, Writable, Write
from hutch.edit.hunk_application import plan_hunks
from hutch.edit.patch_operation_types import FileOperation, Hunk
from hutch.edit.span_mapping_across_edits import Replacement, Span, compose
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class _File:
    """One file; its spans map the text of its origin to its new text."""

    data: bytes
    mode: int | None = None  # None: the default for a new file
    origin: str | None = None  # the path that it was read from
    text: Text | None = None  # of the data, once it is needed
    spans: tuple[Span, ...] = ()
    notes: tuple[str, ...] = ()

    def noted(self, note: str) -> "_File":
        """The same file with one more note."""
        return replace(self, notes=(*self.notes, note))


class Draft:
    """The files that a patch touches."""

    def __init__(self, files: Writable) -> None:
        self._files = files
        self._before: dict[str, _File | None] = {}
        self._now: dict[str, _File | None] = {}
        self._touched: dict[str, None] = {}  # in order

    def do(self, operation: FileOperation) -> None:
        """Apply one operation in memory."""
        path = clean(operation.path)
        if operation.kind == "add":
            self._add(path, operation)
        elif operation.kind == "delete":
            self._read(path)
            self._put(path, None)
        else:
            self._update(path, operation)

    def _add(self, path: str, operation: FileOperation) -> None:
        text = Text("")
        text.check(operation.content)
        refuse_placeholder(operation.content.split("\n"), "", shorter=False)
        data = text.encode(operation.content)
        there = self._find(path)
        if there is None:
            self._put(path, _File(data, 0o755 if operation.mode == 0o755 else None))
        elif there.data == data:
            self._put(path, there.noted("It already exists, with the same content."))
        else:
            raise Conflict("it already exists. Use '*** Update File' to change it, or delete it first.")

    def _update(self, path: str, operation: FileOperation) -> None:
        to = clean(operation.move_to) if operation.move_to else path
        if operation.otherwise and self._find(path) is None:
            path = to = clean(operation.otherwise)
        there = self._find(to) if to != path else None
        if there and self._find(path) is None and _patched(there, operation.hunks).data == there.data:
            self._put(to, there.noted(f"It was already moved from '{path}'."))
            return
        file = _patched(self._read(path), operation.hunks)
        if operation.mode is not None:
            file = replace(file, mode=_executable(file.mode, yes=operation.mode == 0o755))
        if there and operation.copy:
            raise Conflict(f"'{to}' already exists, so '{path}' cannot be copied there. Delete it first.")
        if there:
            file = file.noted(f"It replaced the file that was at '{to}'.")
        if to != path and not operation.copy:
            self._put(path, None)
        self._put(to, replace(file, origin=None, spans=()) if operation.copy else file)

    def _read(self, path: str) -> _File:
        file = self._find(path)
        if file is None:
            raise NotFound("it does not exist. Search for its name, or create it with '*** Add File'.")
        return file

    def _find(self, path: str) -> _File | None:
        if path not in self._now:
            try:
                data, mode = self._files.read_bytes(path)
                file = _File(data, mode & 0o777, path)
            except NotFound:
                file = None
            self._before[path] = self._now[path] = file
        return self._now[path]

    def _put(self, path: str, file: _File | None) -> None:
        self._now[path] = file
        self._touched[path] = None

    def finish(self) -> EditResult:
        """Write all changes; return the result."""
        edited: list[EditedFile] = []
        deletes: list[Operation] = []
        moves: list[Operation] = []
        writes: list[Operation] = []
        gone = {path for path, file in self._now.items() if file is None}
        moved = {file.origin: path for path, file in self._now.items() if file and file.origin in gone}
        for path in self._touched:
            file, before = self._now[path], self._before[path]
            if file is None:
                if before and path not in moved:
                    deletes.append(Delete(path, _hash(before)))
                    edited.append(_shown(path, before, None))
            elif file.origin and moved.get(file.origin) == path and (source := self._before[file.origin]):
                moves.append(_move(file.origin, source, path, file, before))
                edited.append(_shown(path, source, file))
            elif before and (file.data, file.mode or before.mode) == (before.data, before.mode):
                edited.append(EditedFile(path, "unchanged", notes=file.notes))
            else:
                mode = file.mode if not before or file.mode != before.mode else None
                writes.append(Write(path, file.data, mode, _hash(before) if before else None))
                edited.append(_shown(path, before, file))
        # Delete and move first: a deleted or moved file may be at a path that is written.
        operations = [*deletes, *moves, *writes]
        changes = self._files.change(operations) if operations else []
        return EditResult(tuple(edited), tuple(changes))


def _move(origin: str, source: _File, path: str, file: _File, there: _File | None) -> Move:
    data = file.data if file.data != source.data else None
    mode = file.mode if file.mode != source.mode else None
    return Move(origin, path, data, _hash(source), _hash(there) if there else None, mode)


def clean(path: str) -> str:
    """A path without `.` and doubled slashes. Paths that leave the workspace are refused later."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return ("/" if path.startswith("/") else "") + "/".join(parts)


def _patched(file: _File, hunks: Sequence[Hunk]) -> _File:
    if not hunks:
        return file
    text = file.text or decode(
        file.data, ["\n".join(hunk_line.text for hunk_line in hunk.old) for hunk in hunks]
    )
    if text.bom:
        hunks = [hunk.without_bom() for hunk in hunks]
    for hunk in hunks:
        for sign, line in hunk.lines:
            if sign == "+":
                text.check(line)
    plan = plan_hunks(text.content, hunks)
    made = [
        Replacement(span.start, span.end, plan.content[span.new_start : span.new_end]) for span in plan.spans
    ]
    return replace(
        file,
        data=text.encode(plan.content),
        text=replace(text, content=plan.content),
        spans=tuple(compose(file.spans, made)),
        notes=(*file.notes, *plan.notes),
    )


def _executable(mode: int | None, *, yes: bool) -> int:
    mode = 0o644 if mode is None else mode
    return mode | (mode & 0o444) >> 2 if yes else mode & ~0o111


def _shown(path: str, before: _File | None, after: _File | None) -> EditedFile:
    moved_from = before.origin if before and before.origin != path else None
    notes = after.notes if after else ()
    same = after is not None and before is not None and after.origin == before.origin
    codec = after.text if after and same else None
    try:
        old = _content(before, codec) if before else None
        new = _content(after, codec) if after else None
    except BadRequest:  # binary
        kind: Literal["deleted", "moved", "modified"] = "moved" if moved_from else "modified"
        return EditedFile(path, kind if after else "deleted", notes=notes, moved_from=moved_from)
    spans = after.spans if after and same else None
    return file_result(path, old, new, spans, notes, moved_from)


def _content(file: _File, codec: Text | None) -> str:
    if codec is None:
        return decode(file.data).content
    return file.data[len(codec.bom) :].decode(codec.encoding, codec.errors)


def _hash(file: _File) -> str:
    return sha256(file.data).hexdigest()
