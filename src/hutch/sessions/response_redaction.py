"""Redacts all answers about a session's files before they leave for a client.

Paths and texts come from a repository and from commands, so either may contain a value of
the vault. The content of a file is the exception: a client may write these bytes back, so
the gateway masks them, and only for callers that may not write.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hutch.domain.redaction import Redactor
from hutch.edit.edit_result import EditedFile, EditResult
from hutch.edit.file_operation_types import FileChange
from hutch.snapshots.comparison import Change
from hutch.snapshots.git_storage import Snapshot
from hutch.system.terminal_safe_text import printable
from hutch.workspace.difference_pages_and_patch import Difference
from hutch.workspace.files.directory_listing import Entry, Page
from hutch.workspace.files.file_reads_and_changes import PathStatus
from hutch.workspace.files.partial_read import Bytes
from hutch.workspace.ripgrep_search import GlobResult, GrepResult
from hutch.workspace.search_match_redaction import Line, redact_lines

WITH_TEXT = (Page, PathStatus, GrepResult, GlobResult, Difference, EditResult, Snapshot)


def is_text(found: object) -> bool:
    """True if an answer contains paths or texts of files."""
    return isinstance(found, WITH_TEXT) or (
        isinstance(found, list | tuple) and any(isinstance(each, FileChange | Snapshot) for each in found)
    )


def redacted(found: Any, redactor: Redactor) -> Any:
    """The same answer without secrets. A long answer takes a while."""
    clean = redactor.redact
    match found:
        case Page(entries, cursor):
            return Page([_entry(each, redactor) for each in entries], cursor)
        case PathStatus(entry):
            return replace(found, entry=_entry(entry, redactor))
        case GlobResult(paths):
            return replace(found, paths=[clean(each) for each in paths])
        case GrepResult(lines, counts, paths):
            lines = _found_lines(lines, redactor)
            named = {clean(path): count for path, count in counts.items()}
            return replace(found, lines=lines, counts=named, paths=[clean(each) for each in paths])
        case Snapshot():
            return replace(found, reason=clean_reason(found, redactor))
        case Difference(files=files, patch=patch):
            changed = [_difference(each, redactor) for each in files]
            return replace(found, files=changed, patch=clean_bytes(patch, redactor))
        case EditResult(files, changes):
            return EditResult(
                tuple(_edited(each, redactor) for each in files),
                tuple(_change(each, redactor) for each in changes),
            )
    return [_listed(each, redactor) for each in found]


def clean_reason(snapshot: Snapshot, redactor: Redactor) -> str:
    """Why a snapshot was taken. Redacted here, since a value may have become secret after it was written."""
    return printable(redactor.redact(snapshot.reason))


def _listed(each: FileChange | Snapshot | Change, redactor: Redactor) -> FileChange | Snapshot | Change:
    match each:
        case FileChange():
            return _change(each, redactor)
        case Snapshot():
            return replace(each, reason=clean_reason(each, redactor))
    return _difference(each, redactor)


def clean_bytes(data: bytes, redactor: Redactor) -> bytes:
    """Redact text that may contain bytes of other encodings, which stay unchanged."""
    text = data.decode("utf-8", "surrogateescape")
    return redactor.redact(text).encode("utf-8", "surrogateescape")


def clean_text(found: Bytes, redactor: Redactor) -> str:
    """The beginning of a file as text. If it was cut, a possible start of a secret at its end is omitted."""
    is_cut = len(found.data) < found.size
    data = found.data[: redactor.held_start(found.data)] if is_cut else found.data
    return redactor.redact(data.decode(errors="replace"))


def _found_lines(lines: Sequence[Line], redactor: Redactor) -> list[Line]:
    shown = redact_lines(
        lines, clean=redactor.redact, settle=redactor.drop_partial_secret, mask=redactor.mask
    )
    return [replace(line, path=redactor.redact(line.path)) for line in shown]


def _entry(entry: Entry, redactor: Redactor) -> Entry:
    target = entry.target and redactor.redact(entry.target)
    return replace(entry, path=redactor.redact(entry.path), target=target)


def _change(change: FileChange, redactor: Redactor) -> FileChange:
    moved_from = change.moved_from and redactor.redact(change.moved_from)
    return replace(change, path=redactor.redact(change.path), moved_from=moved_from)


def _difference(change: Change, redactor: Redactor) -> Change:
    old_path = change.old_path and redactor.redact(change.old_path)
    return replace(change, path=redactor.redact(change.path), old_path=old_path)


def _edited(file: EditedFile, redactor: Redactor) -> EditedFile:
    clean = redactor.redact
    return replace(
        file,
        path=clean(file.path),
        lines=clean(file.lines),
        diff=clean(file.diff),
        notes=tuple(map(clean, file.notes)),
        warnings=tuple(map(clean, file.warnings)),
        moved_from=file.moved_from and clean(file.moved_from),
    )
