"""Replaces quoted text: finds it at the strictest level that matches, and adapts the new text.

Lines that the quote and the new text share keep the file's own bytes, at every
level; only lines that differ are written.
"""

import sys
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from hutch.edit.encoded_file_text import (
    common_ending,
    ending,
    join_lines,
    separate_line_ends,
    with_endings,
    without_ending,
)
from hutch.edit.fuzzy_match import IndexedText, MatchLevel, fold, line_key, occurrences, unfolded
from hutch.edit.indent_shift import Shift, shift_between
from hutch.edit.span_mapping_across_edits import Replacement

MAX_MATCHES = 1_000
_MAX_COMPARED_PAIRS = 40_000  # a larger edit keeps only its common first and last lines
_LEVELS = (
    MatchLevel.EXACT,
    MatchLevel.ENDINGS,
    MatchLevel.TRAILING,
    MatchLevel.INDENT,
    MatchLevel.PUNCTUATION,
    MatchLevel.PUNCTUATION_INDENT,
)


class Match(NamedTuple):
    """The position of a match: its offsets, and the line and column of its start."""

    start: int
    end: int
    line: int = 0
    column: int = 0
    shift: Shift | None = None


def find(
    source: IndexedText, old: str, new: str = "", *, every: bool = False
) -> tuple[MatchLevel, list[Match]]:
    """The first level at which `old` matches, and its matches.

    `every` finds all matches to replace, without overlaps. Otherwise the matches show whether there
    is only one, so overlapping ones count, and their number is limited.
    """
    for level in _LEVELS:
        if matches := find_at(source, level, old, new, every=every):
            return level, matches
    return MatchLevel.EXACT, []


def find_at(
    source: IndexedText, level: MatchLevel, old: str, new: str = "", *, every: bool = False
) -> list[Match]:
    """Where `old` is found at one level."""
    if level is MatchLevel.EXACT:
        starts = occurrences(
            source.content, old, max_count=_max_matches(every), step=len(old) if every else 1
        )
        matches = [Match(start, start + len(old)) for start in starts]
        return matches if not source.has_cr else [each for each in matches if _is_whole(source, each)]
    lines = split_quote(old)
    if level is MatchLevel.ENDINGS:
        if not source.has_cr and "\r" not in old and not (source.is_open and old.endswith("\n")):
            return []  # would find the same as an exact match
        return _inside(source, level, lines, every)
    if not old.strip() or not source.may_match(level, old):
        return []
    if level in (MatchLevel.TRAILING, MatchLevel.PUNCTUATION):
        return _inside(source, level, lines, every)
    return _indented(source, level, lines, split_quote(new), every)


def _max_matches(every: bool) -> int:
    return sys.maxsize if every else MAX_MATCHES


def fit(source: IndexedText, level: MatchLevel, match: Match, old: str, new: str) -> Replacement:
    """The replacement of a match by the new text, adapted to the file."""
    if level is MatchLevel.EXACT and not source.has_cr:
        text = with_endings(new, "\n" if source.has_lf else common_ending(new))
        return Replacement(match.start, match.end, _with_final_end(source, match, old, text))
    if level is MatchLevel.EXACT:
        line = source.line_at(match.start)
        match = match._replace(line=line, column=match.start - source.start_of(line))
    old_lines, new_lines = split_quote(old), split_quote(new)
    file_lines, ends = _file_lines(source, match, len(old_lines))
    near = ends[:-1] if len(ends) > 1 and not old_lines[-1] else ends
    end = common_ending(source.content, "".join(near)) if source.has_cr else "\n"
    adapt = _adapter(level, match, old_lines, file_lines)
    text = join_lines(fit_lines(old_lines, new_lines, file_lines, ends, end, adapt))
    if _past_the_end(source, match, old_lines):
        text = without_ending(text)
    if source.has_cr:
        around = (
            source.content[max(match.start - 1, 0) : match.start],
            source.content[match.end : match.end + 1],
        )
        text = separate_line_ends(around[0], text, around[1])
    return Replacement(match.start, match.end, _with_final_end(source, match, old, text))


def _with_final_end(source: IndexedText, match: Match, old: str, text: str) -> str:
    """Add or remove the final line end, so that the file ends as before.

    An edit that changes only this line end is kept as it is.
    """
    bare = without_ending(text)
    if match.end < len(source.content) or not bare or bare == without_ending(old):
        return text
    if source.is_open:
        return bare
    return text if ending(text) else text + ending(source.content)


def split_quote(text: str) -> list[str]:
    """The lines of a quote; the last one is empty when the quote ends with a line end."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _is_whole(source: IndexedText, match: Match) -> bool:
    """True if a match neither begins nor ends between the CR and the LF of a CRLF."""
    return "\r\n" not in (
        source.content[max(match.start - 1, 0) : match.start + 1],
        source.content[max(match.end - 1, 0) : match.end + 1],
    )


def _inside(source: IndexedText, level: MatchLevel, lines: list[str], every: bool) -> list[Match]:
    """Matches that may begin and end inside a line."""
    keys = source.keys(level)
    pattern = [line_key(level, line) for line in lines]
    # Space at the end of the quote matches only at the end of a line.
    cut = level is not MatchLevel.ENDINGS and lines[-1] != lines[-1].rstrip()
    text = "\n".join([*pattern, ""] if cut else pattern)
    found: list[Match] = []
    step = max(len(text) - cut, 1) if every else 1
    for offset in occurrences(keys.joined, text, max_count=_max_matches(every), start=1, step=step):
        line, column = keys.position(offset)
        last, last_column = keys.position(offset + len(text) - cut)
        if level is MatchLevel.PUNCTUATION:
            columns = (_unfolded(source, line, column), _unfolded(source, last, last_column))
            if None in columns:
                continue
            column, last_column = columns[0] or 0, columns[1] or 0
        if cut:
            last_column = len(source.bare[last])
        start = source.start_of(line) + column
        end = start + last_column - column if last == line else source.start_of(last) + last_column
        found.append(Match(start, end, line, column))
    return found


def _unfolded(source: IndexedText, line: int, column: int) -> int | None:
    return unfolded(source.bare[line], column) if line < len(source.bare) else column


def _indented(
    source: IndexedText, level: MatchLevel, old: list[str], new: list[str], every: bool
) -> list[Match]:
    """Matches of whole lines whose indentation differs by one rule."""
    skipped = len(old) > 1 and not old[-1].strip()
    old = old[:-1] if skipped else old
    keys = [line_key(level, line) for line in old]
    found: list[Match] = []
    for line in source.keys(level).blocks(keys, max_count=_max_matches(every)):
        if every and found and line < found[-1].line + len(old):
            continue
        last = line + len(old) - 1
        near = source.bare[max(line - 40, 0) : last + 40]
        shift = shift_between(old, source.bare[line : last + 1], new, near)
        if shift:
            end = source.start_of(last + 1) if skipped else source.start_of(last) + len(source.bare[last])
            found.append(Match(source.start_of(line), end, line, 0, shift))
    return found


def _past_the_end(source: IndexedText, match: Match, old: list[str]) -> bool:
    """True if the quote ends with a line end where the file has none."""
    return match.end == len(source.content) and not old[-1] and source.is_open


def _file_lines(source: IndexedText, match: Match, count: int) -> tuple[list[str], list[str]]:
    """The file's text and line end for each line of the quote."""
    file_lines = list(source.bare[match.line : match.line + count])
    ends = source.ends(match.line, min(match.line + count, len(source.bare)))
    if len(file_lines) < count:  # the empty line after the last one
        file_lines.append("")
        ends.append("")
    last = match.end - source.start_of(match.line + count - 1)
    file_lines[-1] = file_lines[-1][:last]
    file_lines[0] = file_lines[0][match.column :]
    return file_lines, ends


def _adapter(
    level: MatchLevel, match: Match, old: Sequence[str], file_lines: Sequence[str]
) -> Callable[[str, int], str]:
    """A function that adapts a new line; its number is the line of the quote that it replaces, or -1."""
    if shift := match.shift:
        if level is MatchLevel.PUNCTUATION_INDENT:
            moved = [shift.line(line) or "" for line in old]
            return lambda line, index: _punctuated(moved, shift.line(line) or "", file_lines, index)
        return lambda line, _: shift.line(line) or ""
    if level is MatchLevel.PUNCTUATION:
        return lambda line, index: _punctuated(old, line, file_lines, index)
    return _unchanged


def _punctuated(old: Sequence[str], new: str, file_lines: Sequence[str], index: int) -> str:
    return new if index < 0 else keep_punctuation(old[index], new, file_lines[index])


def keep_punctuation(old: str, new: str, file_line: str) -> str:
    """The new line, with the file's own characters where quote and new line have a common start and end."""
    shortest = min(len(old), len(new))
    head = next((index for index in range(shortest) if old[index] != new[index]), shortest)
    max_tail = shortest - head
    tail = next((index for index in range(max_tail) if old[-1 - index] != new[-1 - index]), max_tail)
    first = unfolded(file_line, len(fold(old[:head])))
    last = unfolded(file_line, len(fold(old[: len(old) - tail])))
    if first is None or last is None:
        return new
    return file_line[:first] + new[head : len(new) - tail] + file_line[last:]


def _unchanged(line: str, _: int) -> str:
    return line


def fit_lines(
    old: list[str],
    new: list[str],
    file_lines: list[str],
    ends: list[str],
    end: str,
    adapt: Callable[[str, int], str] = _unchanged,
) -> list[str]:
    """The new lines with their ends, the last one without; unchanged lines keep the file's bytes."""
    texts: list[str] = []
    for equal, old_start, old_end, new_start, new_end in _comparison(old, new):
        paired = old_end - old_start == new_end - new_start
        for offset, line in enumerate(new[new_start:new_end]):
            index = old_start + offset
            if equal:
                texts += (file_lines[index], ends[index] or end)
            else:
                texts += (adapt(line, index if paired else -1), end)
    return texts[:-1]


def _comparison(old: list[str], new: list[str]) -> list[tuple[bool, int, int, int, int]]:
    """The equal and different ranges of quote and new text: equal or not, and the lines of each."""
    shortest = min(len(old), len(new))
    head = next((index for index in range(shortest) if old[index] != new[index]), shortest)
    max_tail = shortest - head
    tail = next((index for index in range(max_tail) if old[-1 - index] != new[-1 - index]), max_tail)
    old_end, new_end = len(old) - tail, len(new) - tail
    middle = [(False, head, old_end, head, new_end)]
    if 0 < (old_end - head) * (new_end - head) <= _MAX_COMPARED_PAIRS:
        matcher = SequenceMatcher(None, old[head:old_end], new[head:new_end], autojunk=False)
        middle = [
            (tag == "equal", a + head, b + head, c + head, d + head)
            for tag, a, b, c, d in matcher.get_opcodes()
        ]
    return [(True, 0, head, 0, head), *middle, (True, old_end, len(old), new_end, len(new))]
