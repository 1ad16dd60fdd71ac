"""The result of an edit, as the caller sees it."""

from collections.abc import Sequence
from typing import Literal

from hutch.domain.errors import BadRequest
from hutch.edit.change_excerpt_and_diff import change_window, clip, numbered_excerpt, unified_diff
from hutch.edit.encoding_detection import decode
from hutch.edit.file_operation_types import FileChange
from hutch.edit.span_mapping_across_edits import Span
from hutch.edit.syntax_warning import syntax_warning
from hutch.system.lazy_dataclass import dataclass

_MAX_NEW_LINES = 20  # shown of a new file, whose author knows the rest


@dataclass(frozen=True, slots=True)
class EditedFile:
    """The result for one file."""

    path: str
    kind: Literal["created", "modified", "deleted", "moved", "unchanged"]
    lines: str = ""  # numbered, around each change
    diff: str = ""
    notes: tuple[str, ...] = ()  # how the text was matched, and which edits were already applied
    warnings: tuple[str, ...] = ()
    moved_from: str | None = None

    @property
    def text(self) -> str:
        """The result for the model."""
        source = f" from '{self.moved_from}'" if self.moved_from else ""
        head = "Nothing changed in" if self.kind == "unchanged" else self.kind.capitalize()
        parts = [f"{head} '{clip(self.path)}'{source}.", *self.notes]
        return "\n".join(
            filter(None, [" ".join(parts), self.lines, *(f"Warning: {w}." for w in self.warnings)])
        )


@dataclass(frozen=True, slots=True)
class EditResult:
    """The result of a call."""

    files: tuple[EditedFile, ...]
    changes: tuple[FileChange, ...]  # empty when all edits were already applied

    @property
    def diff(self) -> str:
        """One diff of all files."""
        return "".join(file.diff for file in self.files)

    @property
    def text(self) -> str:
        """The result for the model."""
        return "\n\n".join(file.text for file in self.files)


def file_result(
    path: str,
    before: str | None,
    after: str | None,
    spans: Sequence[Span] | None,
    notes: Sequence[str] = (),
    moved_from: str | None = None,
) -> EditedFile:
    """Describe a changed file; None for a text means that the file does or did not exist.

    Without spans the whole text counts as changed, except for common first and last lines.
    """
    if spans is None or before is None or after is None:
        spans = [Span(0, len(before or ""), 0, len(after or ""))]
    window = change_window(before or "", after or "", spans)
    names = (None if before is None else moved_from or path, None if after is None else path)
    diff = unified_diff(*names, window) if window.ranges else ""
    if after is None:
        return EditedFile(path, "deleted", "", diff, tuple(notes))
    warning = syntax_warning(path, before, after, window)
    warnings = (warning,) if warning else ()
    if before is None:
        shown = numbered_excerpt(window, max_lines=_MAX_NEW_LINES)
        return EditedFile(path, "created", shown, diff, tuple(notes), warnings)
    kind: Literal["moved", "modified"] = "moved" if moved_from else "modified"
    return EditedFile(path, kind, numbered_excerpt(window), diff, tuple(notes), warnings, moved_from)


def whole_file_warning(path: str, before: bytes | None, after: bytes) -> str:
    """The syntax warning for a file that was written as a whole; `before` is None for a new one."""
    try:
        old, new = decode(before).content if before is not None else None, decode(after).content
    except BadRequest:  # not text
        return ""
    spans = [Span(0, len(old or ""), 0, len(new))]
    return syntax_warning(path, old, new, change_window(old or "", new, spans)) or ""
