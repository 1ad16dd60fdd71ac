"""Finds the positions of the hunks of a patch in a file.

Each hunk is searched for at each level of tolerance. If it matches in several places, its line
number, its anchors, or the order of the hunks decides; if that leaves a choice,
the patch is refused.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

from hutch.domain.errors import BadRequest, Conflict
from hutch.edit.fuzzy_match import IndexedText, Keys, MatchLevel, fold, line_key
from hutch.edit.indent_shift import shift_between
from hutch.edit.match_errors import CERTAIN_SIMILARITY, MAX_LISTED, did_you_mean, format_lines, is_word
from hutch.edit.patch_operation_types import Hunk, HunkLine
from hutch.edit.similar_lines import find_similar_lines, similarity
from hutch.system.lazy_dataclass import dataclass

_MAX_PLACES = 100_000  # of one hunk
_MAX_WORK = 3_000_000  # lines and places compared; some seconds
_MAX_RARE_LINES = 200
_MAX_HUNKS_WITHOUT_INDEX = 8
_MIN_CHARS = 3  # of an added text, to be more than a bracket


@dataclass(frozen=True, slots=True)
class PlacedHunk:
    """A hunk, the index of its first line in the file, and how it matched."""

    hunk: Hunk
    number: int
    line: int
    level: MatchLevel
    applied: bool  # the file already has the result of the hunk

    @property
    def end(self) -> int:
        """The index after its last line in the file."""
        return self.line + len(self.hunk.new if self.applied else self.hunk.old)

    @property
    def core(self) -> tuple[int, int]:
        """The lines from the first to the last change; hunks may share the context around."""
        signs = "".join(hunk_line.sign for hunk_line in self.hunk.file_lines)
        start = self.line + len(signs) - len(signs.lstrip(" "))
        return start, max(self.end - (len(signs) - len(signs.rstrip(" "))), start)


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The lines where a hunk may begin."""

    level: MatchLevel
    lines: list[int]
    applied: bool = False
    anywhere: bool = False  # the order of hunks does not count


def place_hunks(source: IndexedText, hunks: Sequence[Hunk]) -> list[PlacedHunk]:
    """Every hunk with its line, by line; Conflict names the first that has none, or more than one."""
    finder = _Finder(source, many=len(hunks) > _MAX_HUNKS_WITHOUT_INDEX)
    places: list[_Candidates] = []
    for number, hunk in enumerate(hunks, start=1):
        try:
            places.append(finder.places(hunk))
        except BadRequest as error:
            raise type(error)(f"{_name(number, hunks)}: {error}") from None
    lines = _in_order(hunks, places, len(source.bare))
    placed = [
        PlacedHunk(hunk, number, line, place.level, place.applied)
        for number, (hunk, place, line) in enumerate(zip(hunks, places, lines, strict=True), start=1)
    ]
    _check_headings(source, placed, hunks)
    placed.sort(key=lambda each: (each.core, each.number))
    for one, other in pairwise(each for each in placed if not each.applied):
        if other.core[0] < one.core[1]:
            raise Conflict(
                f"{_name(other.number, hunks)} overlaps with hunk {one.number}: both change line"
                f" {other.core[0] + 1}. Make one hunk of the two."
            )
    return placed


def _check_headings(source: IndexedText, placed: Sequence[PlacedHunk], hunks: Sequence[Hunk]) -> None:
    """Refuse a hunk whose heading is neither in the file nor in the patch: it is meant for other lines.

    A heading may be the beginning of its line, since programs cut it.
    """
    patched = Keys([fold(hunk_line.text).strip() for hunk in hunks for hunk_line in hunk.file_lines])
    for each in placed:
        heading = fold(each.hunk.heading.rstrip("\ufffd")).strip()
        if each.applied or not heading:
            continue
        if not any(f"\n{heading}" in keys.joined for keys in (source.keys(MatchLevel.UNEVEN), patched)):
            raise Conflict(
                f"{_name(each.number, hunks)}: the heading '{each.hunk.heading:.100}' after its line numbers "
                "is not in the file. Give a line above the intended lines, or no heading."
            )


def _name(number: int, hunks: Sequence[Hunk]) -> str:
    anchor = f" ('@@ {hunks[number - 1].anchors[-1]:.60}')" if hunks[number - 1].anchors else ""
    return f"Hunk {number} of {len(hunks)}{anchor}" if len(hunks) > 1 else f"The hunk{anchor}"


def _in_order(hunks: Sequence[Hunk], places: Sequence[_Candidates], total: int) -> list[int]:
    """Choose one line for each hunk: the only choice that keeps the hunks in order."""
    chosen = [place.lines[0] for place in places]
    if all(len(place.lines) == 1 for place in places):
        return chosen  # in any order
    ordered = [number for number, place in enumerate(places) if not place.applied and not place.anywhere]
    latest = dict.fromkeys(ordered, -1)
    limit = total
    for number in reversed(ordered):
        index = bisect_right(places[number].lines, limit - len(hunks[number].old)) - 1
        limit = latest[number] = places[number].lines[index] if index >= 0 else -1
    minimum = 0
    for number in ordered:
        lines = places[number].lines
        index = bisect_left(lines, minimum)
        if index == len(lines) or latest[number] < 0 or lines[index] != latest[number]:
            several = number if len(lines) > 1 else next(n for n in ordered if len(places[n].lines) > 1)
            raise Conflict(
                f"{_name(several + 1, hunks)} matches in {len(places[several].lines)} places:"
                f" {_listed(places[several].lines)}. Give more lines around the intended"
                " one, or name a line above it with '@@'."
            )
        chosen[number] = lines[index]
        minimum = chosen[number] + len(hunks[number].old)
    return chosen


class _Finder:
    """Finds where hunks match in one file."""

    def __init__(self, source: IndexedText, *, many: bool) -> None:
        self._source = source
        self._many = many  # then an index of lines is worth its cost
        self._indices: dict[MatchLevel, dict[str, list[int]]] = {}
        self._work = 0
        self._drift = 0  # the error of the last line number

    def places(self, hunk: Hunk) -> _Candidates:
        """The lines where the hunk may begin."""
        if not hunk.old:
            return self._insertion(hunk)
        marks = self._marks(hunk.anchors)
        elsewhere: list[int] = []
        for level in MatchLevel:
            lines = self._lines(hunk, level, hunk.old)
            fitting = _first_below(lines, marks, len(hunk.old)) if marks else lines
            if fitting:
                applied = len(fitting) == 1 and self._has_result(hunk, fitting[0])
                return _Candidates(level, fitting, applied=applied)
            elsewhere = elsewhere or lines
        if lines := self._applied(hunk, marks):
            return _Candidates(MatchLevel.EXACT, lines[:1], applied=True)
        if elsewhere:
            raise Conflict(
                f"its lines are at {_listed(elsewhere)}, which is not below '{hunk.anchors[-1]:.100}' at"
                f" {_listed(marks)}. Name a line above the intended lines after '@@', or none."
            )
        raise self._not_found(hunk)

    def _insertion(self, hunk: Hunk) -> _Candidates:
        total = len(self._source.bare)
        if marks := self._marks(hunk.anchors):
            return _Candidates(MatchLevel.EXACT, [mark + 1 for mark in marks])
        if hunk.line is not None:
            line = self._index_of(hunk.line + 1) + self._drift if total else 0
            if not 0 <= line <= total:
                raise Conflict(
                    f"it only adds, after line {hunk.line}, but the file has {total} lines."
                    " Give some lines around the new ones."
                )
            return _Candidates(MatchLevel.EXACT, [line])
        line = total - len(hunk.new)
        applied = line >= 0 and _counts(hunk.new) and self._is_at(MatchLevel.TRAILING, hunk.new, line)
        return _Candidates(MatchLevel.EXACT, [line if applied else total], applied=applied, anywhere=True)

    def _lines(self, hunk: Hunk, level: MatchLevel, quote: Sequence[HunkLine]) -> list[int]:
        """Where these lines match at this level; the position that the hunk declares goes first."""
        if level > MatchLevel.ENDINGS:
            text = "\n".join(hunk_line.text for hunk_line in quote)
            if not text.strip() or not self._source.may_match(level, text):
                return []
        if hunk.line is not None:
            expected = self._index_of(hunk.line)
            for line in (expected + self._drift, expected):
                if self._is_at(level, quote, line):
                    self._drift = line - expected
                    return [line]
        last = len(self._source.bare) - len(quote)
        if hunk.at_end and self._is_at(level, quote, last):
            return [last]
        lines = [line for line in self._search(level, quote) if self._fits(level, quote, line)]
        if hunk.line is not None and len(lines) == 1:
            self._drift = lines[0] - expected
        return lines

    def _search(self, level: MatchLevel, quote: Sequence[HunkLine]) -> list[int]:
        seen = max(level, MatchLevel.ENDINGS)
        pattern = [line_key(seen, hunk_line.text) for hunk_line in quote]
        if not self._many:
            return self._blocks(seen, pattern)
        index = self._index(seen)
        offset = min(range(len(pattern)), key=lambda n: len(index.get(pattern[n], ())))
        rare = index.get(pattern[offset], [])
        if len(rare) <= _MAX_RARE_LINES:
            lines = self._source.keys(seen).lines
            starts = [line - offset for line in rare if line >= offset]
            found = [start for start in starts if lines[start : start + len(pattern)] == pattern]
            self._count(len(rare) * len(pattern))
            return found
        return self._blocks(seen, pattern)

    def _blocks(self, level: MatchLevel, pattern: list[str]) -> list[int]:
        found = self._source.keys(level).blocks(pattern, max_count=_MAX_PLACES)
        self._count(len(self._source.content) // 500 + len(found))
        return found

    def _is_at(self, level: MatchLevel, quote: Sequence[HunkLine], line: int) -> bool:
        if not 0 <= line <= len(self._source.bare) - len(quote):
            return False
        seen = max(level, MatchLevel.ENDINGS)
        lines = self._source.keys(seen).lines
        same = all(
            lines[line + offset] == line_key(seen, hunk_line.text) for offset, hunk_line in enumerate(quote)
        )
        return same and self._fits(level, quote, line)

    def _fits(self, level: MatchLevel, quote: Sequence[HunkLine], line: int) -> bool:
        """True if line ends or the indentation match, too, where the level requires it."""
        if level is MatchLevel.EXACT:
            return self._source.ends(line, line + len(quote)) == [hunk_line.end for hunk_line in quote]
        if level in (MatchLevel.INDENT, MatchLevel.PUNCTUATION_INDENT):
            found = self._source.bare[line : line + len(quote)]
            near = self._source.bare[max(line - 40, 0) : line + len(quote) + 40]
            return shift_between([hunk_line.text for hunk_line in quote], found, [], near) is not None
        return True

    def _marks(self, anchors: Sequence[str]) -> list[int]:
        """Where the last of these lines is, each below the one before it; Conflict if one is missing."""
        marks: list[int] = []
        for number, anchor in enumerate(anchors):
            lines = self._anchor_lines(anchor)
            if not lines:
                hint = self._hint([anchor], anchors[:number], marks) or "Name one that is, or none."
                raise Conflict(f"the line '{anchor:.100}' after '@@' is not in the file. {hint}")
            self._count(len(marks))
            marks = _first_below(lines, marks) if number else lines
            if not marks:
                raise Conflict(
                    f"the line '{anchor:.100}' after '@@' is at {_listed(lines)}, which is not below"
                    f" '{anchors[number - 1]:.100}'. Give the outermost line first."
                )
        return marks

    def _anchor_lines(self, anchor: str) -> list[int]:
        """Where this line is, or else one that begins with it: '@@ class A' for 'class A(B):'.

        Other occurrences do not count, such as a comment or a string that quotes it.
        """
        quote = fold(anchor).strip()
        for level, text in ((MatchLevel.ENDINGS, anchor.rstrip()), (MatchLevel.UNEVEN, quote)):
            if lines := self._search(level, [HunkLine(" ", text, "")]):
                return lines
        self._count(len(self._source.bare))
        part = quote.removesuffix("@@").strip()
        keys = self._source.keys(MatchLevel.UNEVEN).lines
        return [line for line, have in enumerate(keys) if _begins_with(have, part)] if part else []

    def _has_result(self, hunk: Hunk, line: int) -> bool:
        """True if the lines that the hunk adds above or below are already in the file."""
        signs = "".join(hunk_line.sign for hunk_line in hunk.file_lines)
        added = [hunk_line for hunk_line in hunk.file_lines if hunk_line.sign == "+"]
        if signs.strip("+").strip(" ") or not _counts(added):
            return False
        above = len(signs) - len(signs.lstrip("+"))
        return self._is_at(MatchLevel.TRAILING, hunk.new, line - above)

    def _applied(self, hunk: Hunk, marks: Sequence[int]) -> list[int]:
        """Where the file has the result of the hunk below its anchors, if that is certain."""
        signs = "".join(hunk_line.sign for hunk_line in hunk.file_lines)
        added = [hunk_line for hunk_line in hunk.file_lines if hunk_line.sign == "+"]
        if not (_counts(added) or (not added and signs.strip("-") == signs and _counts(hunk.new))):
            return []
        expected = None if hunk.line is None else self._index_of(hunk.line)
        # Computed before a match changes the drift.
        pointed = set() if expected is None else {expected, expected + self._drift}
        for level in (MatchLevel.ENDINGS, MatchLevel.TRAILING, MatchLevel.INDENT, MatchLevel.PUNCTUATION):
            lines = self._lines(hunk, level, hunk.new)
            if marks:
                lines = _first_below(lines, marks, len(hunk.new))
            if lines:
                return (
                    lines
                    if self._is_sure(hunk, lines, located=bool(marks) or bool(pointed & set(lines)))
                    else []
                )
        return []

    def _is_sure(self, hunk: Hunk, lines: Sequence[int], *, located: bool) -> bool:
        """True if the hunk was certainly applied at these lines, which have its result;
        `located` if its anchor or its line number points there."""
        old, length = [hunk_line.text for hunk_line in hunk.old], len(hunk.new)
        if not located:
            # Only its lines show where the hunk belongs: exactly one place must be similar to them.
            line, *more = lines
            rival = find_similar_lines(self._source, old, outside=[(line, line + length)])
            own = similarity(self._source, old, line, line + length)
            return not more and (rival is None or rival.similarity < min(own, CERTAIN_SIMILARITY))
        near = find_similar_lines(self._source, old)
        is_here = near and any(near.start < line + length and line < near.end for line in lines)
        return near is None or bool(is_here) or near.similarity < CERTAIN_SIMILARITY

    def _not_found(self, hunk: Hunk) -> Conflict:
        quote = [hunk_line.text for hunk_line in hunk.old]
        hint = self._hint(quote, hunk.anchors, self._marks(hunk.anchors))
        if not hint:
            return Conflict(
                "its lines are not in the file, nor anything similar. Read the file again and give"
                " its current context and removed lines."
            )
        return Conflict(f"its lines are not in the file. {hint}")

    def _hint(self, quote: Sequence[str], anchors: Sequence[str], marks: Sequence[int]) -> str:
        """The lines that were probably meant, those below the anchors first; empty when none are similar."""
        if marks and (below := find_similar_lines(self._source, quote, first=marks[0])):
            return did_you_mean(self._source, below, quote)
        near = find_similar_lines(self._source, quote)
        if near is None:
            return ""
        where = (
            f"Nothing below '{anchors[-1]:.100}' at {_listed(marks)} is similar, but lines above it are. "
            if marks
            else ""
        )
        return where + did_you_mean(self._source, near, quote)

    def _index(self, level: MatchLevel) -> dict[str, list[int]]:
        if level not in self._indices:
            index: dict[str, list[int]] = {}
            for line, text in enumerate(self._source.keys(level).lines):
                index.setdefault(text, []).append(line)
            self._indices[level] = index
        return self._indices[level]

    def _index_of(self, number: int) -> int:
        """The index of a line that a diff counts, which counts only LF as a line end."""
        if not self._source.has_lone_cr:
            return number - 1
        ends = [line for line, text in enumerate(self._source.lines) if text.endswith("\n")]
        return (
            ends[number - 2] + 1 if 2 <= number <= len(ends) + 1 else min(number - 1, len(self._source.bare))
        )

    def _count(self, work: int) -> None:
        self._work += work
        if self._work > _MAX_WORK:
            raise BadRequest(
                "the patch has too many hunks that match in many places. Split it, or give more context."
            )


def _begins_with(line: str, part: str) -> bool:
    """True if a line begins with `part`, and `part` does not end inside of a word."""
    return line.startswith(part) and not (is_word(part[-1]) and is_word(line[len(part) : len(part) + 1]))


def _first_below(lines: Sequence[int], marks: Sequence[int], length: int = 1) -> list[int]:
    """For each mark the first of the lines from it on, unless another mark comes before.

    If there is none, something of that length may begin above the mark so that the mark is one of its lines.
    """
    found: list[int] = []
    for number, mark in enumerate(marks):
        index = bisect_left(lines, mark)
        following = marks[number + 1] if number + 1 < len(marks) else None
        if index < len(lines) and (following is None or lines[index] < following):
            found.append(lines[index])
        elif index and lines[index - 1] + length > mark and lines[index - 1] not in found[-1:]:
            found.append(lines[index - 1])
    return found


def _listed(lines: Sequence[int]) -> str:
    return format_lines([line + 1 for line in lines[:MAX_LISTED]], len(lines))


def _counts(hunk_lines: Sequence[HunkLine]) -> bool:
    """True if the lines have enough text to be significant."""
    return sum(len(hunk_line.text.strip()) for hunk_line in hunk_lines) >= _MIN_CHARS
