"""Excerpts of a change: the numbered lines around it, and a unified diff.

Both are built from the spans of the change, so their cost does not grow with the
file, and both are cut to a length that fits into a conversation. Only a window
around the changes is split into lines and parsed: most edits are small.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from hutch.domain.lone_surrogate_replacement import replace_surrogates
from hutch.edit.encoded_file_text import ending, split_lines, without_ending
from hutch.edit.span_mapping_across_edits import LineRange, Span, line_ranges
from hutch.system.lazy_dataclass import dataclass

_MAX_WHOLE_CHARS = 64 * 1024  # up to this size the window is the whole text
_MARGIN_CHARS = 32 * 1024  # around the changes of a larger text
_MIN_LINES = 4
CONTEXT_LINES = 3
MAX_LINES = 80  # of numbered lines for one file
MAX_DIFF_LINES = 200
_MAX_LINE_CHARS = 300  # of one line
_PART, _PARTS = re.compile(r"[\w./+=:~-]"), re.compile(r"[\w./+=:~-]*\Z")  # of a word, as credentials are


@dataclass(frozen=True, slots=True)
class Window:
    """Lines around changes, before and after; the ranges count from the window's first line."""

    before: list[str]
    after: list[str]
    ranges: list[LineRange]
    first: int = 0  # the number of lines above the window
    starts_text: bool = True
    ends_text: bool = True


def change_window(before: str, after: str, spans: Sequence[Span]) -> Window:
    """The window that shows all of these changes."""
    if not spans:
        return Window([], [], [])
    start, rest = 0, 0
    if len(before) > _MAX_WHOLE_CHARS:
        start = _line_start(before, spans[0].start)
        rest = len(before) - _line_end(before, spans[-1].end)
    old, new = before[start : len(before) - rest], after[start : len(after) - rest]
    old_lines, new_lines = split_lines(old), split_lines(new)
    moved = [Span(a - start, b - start, c - start, d - start) for a, b, c, d in spans]
    above = before.count("\n", 0, start) + before.count("\r", 0, start) - before.count("\r\n", 0, start)
    ranges = line_ranges(old_lines, new_lines, moved)
    return Window(old_lines, new_lines, ranges, above, start == 0, rest == 0)


def _line_start(text: str, offset: int) -> int:
    """The start of a line above `offset`, after an LF, so that it is a line start in both texts."""
    at = offset
    for _ in range(_MIN_LINES):
        at = text.rfind("\n", 0, max(at, 0))
    return text.rfind("\n", 0, max(min(at, offset - _MARGIN_CHARS), 0)) + 1


def _line_end(text: str, offset: int) -> int:
    at = offset
    for _ in range(_MIN_LINES):
        at = text.find("\n", at) + 1 or len(text)
    return text.find("\n", max(at, min(offset + _MARGIN_CHARS, len(text)))) + 1 or len(text)


def clip(line: str, max_chars: int = _MAX_LINE_CHARS) -> str:
    """A line cut to a maximum length, without lone surrogates."""
    if len(line) > max_chars:
        part = line[:max_chars]
        if _PART.match(line, max_chars):  # half of a word might be half of a secret, which is not redacted
            part = part[: len(part) - len(_PARTS.search(part)[0])]  # type: ignore[index]
        line = f"{part}… (+{len(line) - len(part):,} characters)"
    return replace_surrogates(line)


def number_lines(lines: Iterable[str], first: int) -> str:
    """Lines as in a listing: the number, a tab, the line."""
    return "\n".join(f"{number:>6}\t{clip(line)}" for number, line in enumerate(lines, start=first))


def numbered_excerpt(window: Window, *, max_lines: int = MAX_LINES) -> str:
    """The new lines with context, numbered; nearby changes are grouped."""
    parts: list[str] = []
    remaining = max_lines
    groups = list(_groups(window.ranges))
    for index, group in enumerate(groups):
        start = max(group[0].new_start - CONTEXT_LINES, 0)
        end = min(group[-1].new_end + CONTEXT_LINES, len(window.after))
        shown = min(end, start + remaining)
        part = number_lines(map(without_ending, window.after[start:shown]), window.first + start + 1)
        if shown < end:
            part += f"\n     …\t({end - shown} more lines, to line {window.first + end})"
        parts.append(part)
        remaining -= shown - start
        if remaining <= 0 and index + 1 < len(groups):
            rest, line = len(groups) - index - 1, groups[index + 1][0].new_start + 1
            parts.append(f"     …\t({rest} more places, from line {window.first + line})")
            break
    return "\n     …\n".join(parts)


def unified_diff(old_path: str | None, new_path: str | None, window: Window) -> str:
    """A unified diff; None for a path means that the file does not exist."""
    lines = [f"--- {_name('a', old_path)}", f"+++ {_name('b', new_path)}"]
    for group in _groups(window.ranges):
        space = MAX_DIFF_LINES - len(lines)
        hunk = list(islice(_hunk(window, group), space + 1))
        lines += hunk[:space]
        if len(hunk) > space:
            line = window.first + group[0].new_start + 1
            lines.append(f"… (the diff is cut here; read the file from line {line} for the rest)")
            break
    return "\n".join(lines) + "\n"


def _groups(ranges: Sequence[LineRange]) -> Iterator[list[LineRange]]:
    """Groups of changes whose context overlaps."""
    group: list[LineRange] = []
    for each in ranges:
        if group and each.start - group[-1].end > 2 * CONTEXT_LINES:
            yield group
            group = []
        group.append(each)
    if group:
        yield group


def _hunk(window: Window, group: Sequence[LineRange]) -> Iterator[str]:
    before, after, first = window.before, window.after, window.first
    head = min(group[0].start, CONTEXT_LINES)
    start, new_start = group[0].start - head, group[0].new_start - head
    tail = min(len(before) - group[-1].end, CONTEXT_LINES)
    end, new_end = group[-1].end + tail, group[-1].new_end + tail
    yield f"@@ -{_extent(first + start, end - start)} +{_extent(first + new_start, new_end - new_start)} @@"
    done = start
    for each in group:
        yield from _signed(" ", before[done : each.start])
        yield from _signed("-", before[each.start : each.end])
        yield from _signed("+", after[each.new_start : each.new_end])
        done = each.end
    yield from _signed(" ", before[done:end])


def _extent(start: int, length: int) -> str:
    return f"{start + 1}" if length == 1 else f"{start + (length > 0)},{length}"


def _signed(sign: str, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        carriage = "\r" if line.endswith("\r\n") else ""
        yield sign + clip(without_ending(line)) + carriage
        if not ending(line):
            yield "\\ No newline at end of file"


def _name(side: str, path: str | None) -> str:
    return "/dev/null" if path is None else f"{side}/{replace_surrogates(path)}"
