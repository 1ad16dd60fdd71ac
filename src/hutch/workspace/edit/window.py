"""The part of a text that changes are in, taken apart into lines.

Most edits are small and most of a large file is none of their business: only
what lies around the changes is split into lines, shown and parsed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hutch.workspace.edit.spans import LineRange, Span, line_ranges
from hutch.workspace.edit.text import split_lines

_WHOLE = 64 * 1024  # characters; up to this size a text is taken whole
_MARGIN = 32 * 1024  # characters around the changes of a larger one
_LEAST_LINES = 4


@dataclass(frozen=True, slots=True)
class Window:
    """Lines around changes, before and after; the ranges count from the window's first line."""

    before: list[str]
    after: list[str]
    ranges: list[LineRange]
    first: int = 0  # how many lines stand above the window
    starts_text: bool = True
    ends_text: bool = True


def window_on(before: str, after: str, spans: Sequence[Span]) -> Window:
    """The window that shows all of these changes."""
    if not spans:
        return Window([], [], [])
    start, rest = 0, 0
    if len(before) > _WHOLE:
        start = _line_start(before, spans[0].start)
        rest = len(before) - _line_end(before, spans[-1].end)
    old, new = before[start : len(before) - rest], after[start : len(after) - rest]
    old_lines, new_lines = split_lines(old), split_lines(new)
    moved = [Span(a - start, b - start, c - start, d - start) for a, b, c, d in spans]
    above = before.count("\n", 0, start) + before.count("\r", 0, start) - before.count("\r\n", 0, start)
    ranges = line_ranges(old_lines, new_lines, moved)
    return Window(old_lines, new_lines, ranges, above, start == 0, rest == 0)


def _line_start(text: str, offset: int) -> int:
    """The start of a line some way above; after LF, so that it is one in both texts."""
    at = offset
    for _ in range(_LEAST_LINES):
        at = text.rfind("\n", 0, max(at, 0))
    return text.rfind("\n", 0, max(min(at, offset - _MARGIN), 0)) + 1


def _line_end(text: str, offset: int) -> int:
    at = offset
    for _ in range(_LEAST_LINES):
        at = text.find("\n", at) + 1 or len(text)
    return text.find("\n", max(at, min(offset + _MARGIN, len(text)))) + 1 or len(text)
