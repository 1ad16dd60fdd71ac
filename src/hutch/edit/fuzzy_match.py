"""Finds quoted text in a file: exactly, then with more and more tolerance.

Each level tolerates one kind of mistake that models make. A level is tried only when
the stricter ones find nothing, and its match must still be unique.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import cached_property
from itertools import accumulate, islice

from hutch.edit.encoded_file_text import ending, split_lines

_MAX_LINEAR_LOOKUPS = 8  # lookups that count line ends, before a table is built
_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_FOLDED = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys(_SPACES, " "),
        "\u2026": "...",
    }
)


class MatchLevel(IntEnum):
    """The degree of tolerance at which text matched, strictest first."""

    EXACT = 0
    ENDINGS = 1
    TRAILING = 2
    INDENT = 3
    PUNCTUATION = 4
    PUNCTUATION_INDENT = 5
    UNEVEN = 6  # for the context of a patch only

    @property
    def note(self) -> str:
        """The note for the caller; empty for an exact match."""
        return _NOTES[self]


_NOTES = {
    MatchLevel.EXACT: "",
    MatchLevel.ENDINGS: "matched with other line ends; the file's were kept",
    MatchLevel.TRAILING: "matched except for space at the end of lines",
    MatchLevel.INDENT: "matched at another indentation; the new text was indented to fit",
    MatchLevel.PUNCTUATION: "matched with typographic punctuation read as plain",
    MatchLevel.PUNCTUATION_INDENT: (
        "matched at another indentation, with typographic punctuation read as plain;"
        " the new text was indented to fit"
    ),
    MatchLevel.UNEVEN: (
        "matched without regard to indentation; the new lines were indented like their neighbours"
    ),
}

_KEYS: dict[MatchLevel, Callable[[str], str]] = {
    MatchLevel.ENDINGS: lambda line: line,
    MatchLevel.TRAILING: lambda line: line.rstrip(" \t"),
    MatchLevel.INDENT: str.strip,
    MatchLevel.PUNCTUATION: lambda line: fold(line).rstrip(),
    MatchLevel.PUNCTUATION_INDENT: lambda line: fold(line).strip(),
    MatchLevel.UNEVEN: lambda line: fold(line).strip(),
}


def fold(text: str) -> str:
    """Replace typographic quotes, dashes, spaces and ellipses by ASCII."""
    return text if text.isascii() else text.translate(_FOLDED)


def unfolded(line: str, column: int) -> int | None:
    """The column of `line` for a column of its folded form; None inside of an ellipsis."""
    if line.isascii():
        return column
    folded = 0
    for index, character in enumerate(line):
        if folded >= column:
            return index if folded == column else None
        folded += len(fold(character))
    return len(line) if folded == column else None


def line_key(level: MatchLevel, line: str) -> str:
    """The part of a line that this level compares."""
    return _KEYS[level](line)


class Keys:
    """The lines of a file in the form that one level compares."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.joined = "\n".join(["", *lines, ""])  # LF, then each line followed by LF
        self._lookups = 0

    @cached_property
    def _starts(self) -> list[int]:
        return list(accumulate((len(line) + 1 for line in self.lines), initial=1))

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset into `joined`."""
        self._lookups += 1
        if self._lookups <= _MAX_LINEAR_LOOKUPS:
            return self.joined.count("\n", 1, offset), offset - self.joined.rfind("\n", 0, offset) - 1
        line = bisect_right(self._starts, offset) - 1
        return line, offset - self._starts[line]

    def blocks(self, pattern: Sequence[str], *, max_count: int, first: int = 0) -> list[int]:
        """The first lines of the matches of this sequence of keys, from the line `first` on; at most
        `max_count`."""
        pattern_text = "\n".join(["", *pattern, ""])
        start = self._starts[first] - 1 if first else 0
        return [
            self.position(at + 1)[0]
            for at in occurrences(self.joined, pattern_text, max_count=max_count, start=start)
        ]


class IndexedText:
    """A file's text, indexed for searching on first use."""

    def __init__(self, content: str) -> None:
        self.content = content
        self.has_lf, self.has_cr = "\n" in content, "\r" in content
        self.has_lone_cr = self.has_cr and content.count("\r") != content.count("\r\n")
        self._keys: dict[MatchLevel, Keys] = {}
        self._lookups = 0

    @cached_property
    def lines(self) -> list[str]:
        """Lines with their ends."""
        return split_lines(self.content)

    @cached_property
    def bare(self) -> list[str]:
        """Lines without their ends."""
        lines = self.content.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        if not lines[-1]:
            lines.pop()
        return lines

    @property
    def is_open(self) -> bool:
        """True if the last line has no end."""
        return bool(self.content) and self.content[-1] not in "\r\n"

    @cached_property
    def _starts(self) -> list[int]:
        return list(accumulate(map(len, self.lines), initial=0))

    def start_of(self, line: int) -> int:
        """The offset of a line; for the line after the last, the end of the text."""
        self._lookups += 1
        if self._lookups > _MAX_LINEAR_LOOKUPS:
            return self._starts[line]
        if self.has_cr:
            return sum(map(len, islice(self.lines, line)))
        return min(sum(map(len, islice(self.bare, line))) + line, len(self.content))

    def line_at(self, offset: int) -> int:
        """The index of the line at an offset."""
        self._lookups += 1
        if self._lookups > _MAX_LINEAR_LOOKUPS or self.has_lone_cr:
            return max(min(bisect_right(self._starts, offset) - 1, len(self.lines) - 1), 0)
        offset = min(offset, len(self.content) - 1)  # the end of the text belongs to its last line
        return self.content.count("\n", 0, offset)

    def ends(self, start: int, stop: int) -> list[str]:
        """The line ends of these lines."""
        if self.has_cr:
            return [ending(line) for line in self.lines[start:stop]]
        last = self.is_open and stop == len(self.bare) > start
        return ["\n"] * (stop - start - last) + [""] * last

    def keys(self, level: MatchLevel) -> Keys:
        """The lines in the form that this level compares."""
        if level not in self._keys:
            lines = self.bare if level is MatchLevel.ENDINGS else list(map(_KEYS[level], self.bare))
            self._keys[level] = Keys(lines)
        return self._keys[level]

    def may_match(self, level: MatchLevel, quote: str) -> bool:
        """True if this level can find a quote that stricter levels did not."""
        if level is MatchLevel.TRAILING:
            return _has_trailing_space(self.content) or _has_trailing_space(quote)
        if level in (MatchLevel.PUNCTUATION, MatchLevel.PUNCTUATION_INDENT):
            return not (self.content.isascii() and quote.isascii())
        return True


def _has_trailing_space(text: str) -> bool:
    return text[-1:] in {" ", "\t"} or any(mark in text for mark in (" \n", "\t\n", " \r", "\t\r"))


def occurrences(text: str, pattern: str, *, max_count: int, start: int = 0, step: int = 1) -> list[int]:
    """Offsets of `pattern` in `text`; also overlapping ones, unless `step` is its length."""
    found: list[int] = []
    offset = text.find(pattern, start)
    while offset >= 0 and len(found) < max_count:
        found.append(offset)
        offset = text.find(pattern, offset + step)
    return found
