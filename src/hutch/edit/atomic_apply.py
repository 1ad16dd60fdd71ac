"""Applies edits and patches to a workspace: all of one call, or nothing.

Everything is computed in memory first. Then the files are written in one change,
which fails if any of them was modified since it was read.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256

from hutch.domain.errors import BadRequest, Conflict, Denied
from hutch.edit.edit_result import EditedFile, EditResult, file_result
from hutch.edit.encoding_detection import decode
from hutch.edit.file_edits import Edit, Replace, parse_edit, plan_edits, without_bom
from hutch.edit.file_operation_types import Writable, Write
from hutch.edit.in_memory_patch import Draft
from hutch.edit.patch_envelope import BEGIN, parse_envelope, strip_wrapper
from hutch.edit.patch_operation_types import FileOperation
from hutch.edit.unified_diff_parser import is_unified, parse_unified_diff

MAX_PATCH_CHARS = 16 * 1024 * 1024


def edit_file(
    files: Writable, path: str, edits: Sequence[Edit | Mapping[str, object]], if_hash: str | None = None
) -> EditResult:
    """Apply all of these edits to one file, or none; with `if_hash`, only if it still has that hash."""
    data, _ = files.read_bytes(path)
    digest = sha256(data).hexdigest()
    if if_hash is not None and if_hash != digest:
        raise Conflict(
            f"'{path}' has changed: its SHA-256 is {digest}, not {if_hash} as expected. Read it again, then "
            f"repeat the edit."
        )
    try:
        parsed = [parse_edit(edit) if isinstance(edit, Mapping) else edit for edit in edits]
        text = decode(data, [edit.old for edit in parsed if isinstance(edit, Replace)])
        if text.bom:
            parsed = [without_bom(edit) for edit in parsed]
        for edit in parsed:
            text.check(edit.new)
        plan = plan_edits(text.content, parsed)
    except BadRequest as error:
        raise type(error)(f"'{path}' was not changed. {error}") from None
    if plan.content == text.content:
        return EditResult((EditedFile(path, "unchanged", notes=plan.notes),), ())
    write = Write(path, text.encode(plan.content), None, digest)
    changes = files.change([write])
    return EditResult(
        (file_result(path, text.content, plan.content, plan.spans, plan.notes),), tuple(changes)
    )


def apply_patch(files: Writable, patch: str) -> EditResult:
    """Apply a whole patch or nothing; it is an envelope or a unified diff."""
    operations = read_operations(patch)
    draft = Draft(files)
    for number, operation in enumerate(operations, start=1):
        try:
            draft.do(operation)
        except (BadRequest, Denied) as error:
            which = f"File {number} of {len(operations)}" if len(operations) > 1 else "The file"
            raise type(error)(f"Nothing was changed. {which}, '{operation.path}': {error}") from None
    return draft.finish()


def read_operations(patch: str) -> list[FileOperation]:
    """Parse a patch of either kind."""
    if len(patch) > MAX_PATCH_CHARS:
        raise BadRequest(f"The patch has {len(patch):,} characters, more than {MAX_PATCH_CHARS:,}. Split it.")
    lines = strip_wrapper(patch)
    is_envelope = bool(lines) and lines[0].strip() == BEGIN
    return parse_unified_diff(lines) if not is_envelope and is_unified(lines) else parse_envelope(lines)
