"""Finds the lines of a file that a wrong quote probably meant.

Candidates come from lines and rare words that the quote and the file share, so
only a few places are compared in detail, however large the file is.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from hutch.edit.fuzzy_match import IndexedText, MatchLevel, occurrences
from hutch.system.lazy_dataclass import dataclass

_MAX_LINES = 40  # of the quote that are compared
_MAX_VOTES = 60  # of places for one line or word
_MAX_WORDS = 12
_MAX_CANDIDATES = 12
_MAX_CHARS = 1_200  # of a candidate that are compared
_MIN_SIMILARITY = 0.5
_WORD = re.compile(r"\w{3,40}")


@dataclass(frozen=True, slots=True)
class SimilarLines:
    """Lines `start` to `end` of the file (from 0, end excluded); their similarity is 0 to 1."""

    start: int
    end: int
    similarity: float


def find_similar_lines(
    source: IndexedText, quote: Sequence[str], *, first: int = 0, outside: Sequence[tuple[int, int]] = ()
) -> SimilarLines | None:
    """The lines most similar to the quote, if any are similar; from the line `first` on, and outside of
    these ranges (start and end)."""
    quoted = [line.strip() for line in _without_blank_ends(quote)]
    lines = source.keys(MatchLevel.INDENT).lines
    if not quoted or first >= len(lines):
        return None
    votes: defaultdict[int, float] = defaultdict(float)
    for start, weight in _votes(source, quoted[:_MAX_LINES], first):
        if not any(start < theirs[1] and theirs[0] < start + len(quoted) for theirs in outside):
            votes[start] += weight
    best: SimilarLines | None = None
    text = "\n".join(quoted)[:_MAX_CHARS]
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(text)
    for start, _ in sorted(votes.items(), key=lambda vote: (-vote[1], vote[0]))[:_MAX_CANDIDATES]:
        end = min(start + len(quoted), len(lines))
        matcher.set_seq1("\n".join(lines[start : min(end, start + _MAX_LINES)])[:_MAX_CHARS])
        least = best.similarity if best else _MIN_SIMILARITY
        if matcher.real_quick_ratio() > least and matcher.quick_ratio() > least:
            similarity = matcher.ratio()
            if similarity > least:
                best = SimilarLines(start, end, similarity)
    return best


def similarity(source: IndexedText, quote: Sequence[str], start: int, end: int) -> float:
    """The similarity of these lines of the file to the quote, from 0 to 1."""
    quoted = "\n".join(line.strip() for line in _without_blank_ends(quote))[:_MAX_CHARS]
    found = "\n".join(_without_blank_ends(source.keys(MatchLevel.INDENT).lines[start:end]))[:_MAX_CHARS]
    return SequenceMatcher(None, found, quoted, autojunk=False).ratio()


def _votes(source: IndexedText, quoted: list[str], first: int) -> Iterator[tuple[int, float]]:
    """First lines of places that share a line or word with the quote; rare ones weigh more."""
    for index, line in enumerate(quoted):
        if line and (count := source.content.count(line)):
            for place in source.keys(MatchLevel.INDENT).blocks([line], max_count=_MAX_VOTES, first=first):
                yield max(place - index, first), 3 / count
    start = source.start_of(first)
    for word, index in _words(quoted).items():
        count = source.content.count(word)
        for offset in occurrences(source.content, word, max_count=_MAX_VOTES, start=start):
            yield max(source.line_at(offset) - index, first), 1 / count


def _words(quoted: list[str]) -> dict[str, int]:
    """The longest words of the quote, each with the line of its first occurrence."""
    first: dict[str, int] = {}
    for index, line in enumerate(quoted):
        for word in _WORD.findall(line[:_MAX_CHARS]):
            first.setdefault(word, index)
    return {word: first[word] for word in sorted(first, key=len, reverse=True)[:_MAX_WORDS]}


def _without_blank_ends(lines: Sequence[str]) -> list[str]:
    trimmed = list(lines)
    while trimmed and not trimmed[0].strip():
        trimmed.pop(0)
    while trimmed and not trimmed[-1].strip():
        trimmed.pop()
    return trimmed
