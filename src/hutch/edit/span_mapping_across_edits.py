"""Spans: which part of a text became which part of another.

Edits of one call are applied one after the other, each to the result of the one
before. Composing their spans relates every change to the original text, from
which line numbers, diffs and excerpts follow.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import accumulate
from typing import NamedTuple


class Span(NamedTuple):
    """`before[start:end]` became `after[new_start:new_end]`; sorted and disjoint."""

    start: int
    end: int
    new_start: int
    new_end: int


class Replacement(NamedTuple):
    """Replace the text from `start` to `end` by `text`."""

    start: int
    end: int
    text: str


def apply_replacements(content: str, replacements: Iterable[Replacement]) -> str:
    """Make these replacements, which are sorted and disjoint."""
    parts: list[str] = []
    done = 0
    for start, end, text in replacements:
        parts += (content[done:start], text)
        done = end
    return "".join([*parts, content[done:]])


def compose(spans: Iterable[Span], replacements: Iterable[Replacement]) -> list[Span]:
    """The spans after these replacements are made in the text that `spans` lead to."""
    composed: list[Span] = []
    gained = grown = 0  # by earlier spans, by earlier replacements
    for start, end, gain, growth in _clusters(spans, replacements):
        old, new, length = start - gained, start + grown, end - start
        composed.append(Span(old, old + length - gain, new, new + length + growth))
        gained += gain
        grown += growth
    return composed


def _clusters(
    spans: Iterable[Span], replacements: Iterable[Replacement]
) -> Iterator[tuple[int, int, int, int]]:
    """Runs that overlap: start, end, by how much spans make it longer, by how much replacements do."""
    # At one position empty ones come first, and spans before replacements.
    earlier = ((c, d, 0, d - c - (b - a), 0) for a, b, c, d in spans)
    later = ((start, end, 1, 0, len(text) - (end - start)) for start, end, text in replacements)
    run: tuple[int, int, int, int] | None = None
    for start, end, _, gain, growth in merge(earlier, later):
        if run and start < run[1]:
            run = (run[0], max(run[1], end), run[2] + gain, run[3] + growth)
            continue
        if run:
            yield run
        run = (start, end, gain, growth)
    if run:
        yield run


def separate_ends(content: str, spans: Sequence[Span]) -> tuple[str, list[Span]]:
    """Separate a CR and an LF that met when the text between them was deleted: they end two lines.

    This happens after all edits, since a later one may delete one of the two.
    """
    met = {
        span.new_start
        for span in spans
        if span.start < span.end and span.new_start == span.new_end and span.new_start
        if content[span.new_start - 1 : span.new_start + 1] == "\r\n"
    }
    added = [Replacement(at, at, "\r") for at in sorted(met)]
    return apply_replacements(content, added), compose(spans, added)


def position_after(spans: Iterable[Span], start: int, end: int) -> int | None:
    """Where the old text's `start` is in the new one, if nothing from `start` to `end` was changed."""
    moved = 0
    for span in spans:
        if span.start < end and span.end > start:
            return None
        if span.end > start:
            break
        moved = span.new_end - span.end
    return start + moved


class LineRange(NamedTuple):
    """Lines `start` to `end` became `new_start` to `new_end`; counted from 0, the end excluded."""

    start: int
    end: int
    new_start: int
    new_end: int


def line_ranges(before: Sequence[str], after: Sequence[str], spans: Sequence[Span]) -> list[LineRange]:
    """The whole lines that differ, sorted and disjoint."""
    old, new = line_starts(before), line_starts(after)
    ranges: list[LineRange] = []
    for start, end, new_start, new_end in _whole_lines(old, new, spans):
        a, b = bisect_left(old, start), bisect_left(old, end)
        c, d = bisect_left(new, new_start), bisect_left(new, new_end)
        while a < b and c < d and before[a] == after[c]:
            a, c = a + 1, c + 1
        while a < b and c < d and before[b - 1] == after[d - 1]:
            b, d = b - 1, d - 1
        if ranges and (a, c) == (ranges[-1].end, ranges[-1].new_end):
            a, _, c, _ = ranges.pop()
        if a < b or c < d:
            ranges.append(LineRange(a, b, c, d))
    return ranges


def line_starts(lines: Iterable[str]) -> list[int]:
    """The offset of each line, and the end of the last."""
    return list(accumulate(map(len, lines), initial=0))


def _whole_lines(old: list[int], new: list[int], spans: Sequence[Span]) -> Iterator[Span]:
    """Spans extended to whole lines in both texts; spans that then overlap are joined."""
    index = 0
    while index < len(spans):
        start, end, new_start, new_end = spans[index]
        back = _back(old, new, start, new_start)
        while True:
            index += 1
            limit = (spans[index].start if index < len(spans) else old[-1]) - end
            ahead = _ahead(old, new, end, new_end, limit)
            if ahead is not None:
                break
            _, end, _, new_end = spans[index]
        yield Span(start - back, end + ahead, new_start - back, new_end + ahead)


def _back(old: list[int], new: list[int], start: int, new_start: int) -> int:
    """The distance back to a line start in both texts."""
    back = 0
    while True:
        mine = start - old[bisect_right(old, start - back) - 1]
        theirs = new_start - new[bisect_right(new, new_start - mine) - 1]
        if mine == theirs:
            return mine
        back = theirs  # CR before, LF after: a line end in one text only


def _ahead(old: list[int], new: list[int], end: int, new_end: int, limit: int) -> int | None:
    """The distance ahead to a line end in both texts; None when that is past the next span."""
    ahead = 0
    while ahead <= limit:
        mine = old[bisect_left(old, end + ahead)] - end
        if mine > limit:
            return None
        ahead = new[bisect_left(new, new_end + mine)] - new_end
        if mine == ahead:
            return mine
    return None
