"""Errors for quoted text that cannot be replaced, so that the next attempt succeeds.

A message shows the lines that were probably meant, or every match. New text that
is already in the file is not an error.
"""

from collections.abc import Sequence

from hutch.domain.errors import Conflict
from hutch.edit.change_excerpt_and_diff import clip, number_lines
from hutch.edit.fuzzy_match import IndexedText, MatchLevel
from hutch.edit.placeholder_and_line_number_detection import leading_line_numbers, strip_line_numbers
from hutch.edit.quoted_text_replacement import MAX_MATCHES, Match, find, split_quote
from hutch.edit.similar_lines import SimilarLines, find_similar_lines

MAX_LISTED = 50
_MAX_SHOWN_LINES = 15
CERTAIN_SIMILARITY = 0.8
_MIN_CHARS = 3


def ambiguous(source: IndexedText, level: MatchLevel, matches: Sequence[Match]) -> Conflict:
    """The error for text that occurs more than once."""
    lines = _lines(source, matches)
    how = f" ({level.note})" if level.note else ""
    return Conflict(
        f"'old' is in the file {format_count(len(matches))} times{how}: {format_lines(lines, len(matches))}."
        " Quote more of the lines around the intended one, or set replace_all."
    )


def not_found(source: IndexedText, old: str) -> Conflict:
    """The error for text that does not occur, with the most similar lines."""
    lines = split_quote(old)
    if leading_line_numbers(lines):
        stripped = "\n".join(strip_line_numbers(lines))
        there = " Without them it matches." if find(source, stripped)[1] else ""
        return Conflict(
            "'old' is not in the file: its lines begin with their numbers, as in a listing."
            f" The file does not contain them: omit them.{there}"
        )
    near = find_similar_lines(source, lines)
    if near is None:
        return Conflict(
            "'old' is not in the file, nor anything similar. Read the file again and quote its current"
            " text, or search for the text in another file."
        )
    return Conflict(f"'old' is not in the file. {did_you_mean(source, near, lines)}")


def did_you_mean(source: IndexedText, near: SimilarLines, quote: Sequence[str]) -> str:
    """The lines that were probably meant, numbered, and where they first differ from the quote."""
    shown = source.bare[near.start : min(near.end, near.start + _MAX_SHOWN_LINES)]
    more = near.end - near.start - len(shown)
    quoted = [line for line in quote if line.strip()]
    theirs = [(number, line) for number, line in enumerate(shown, start=near.start + 1) if line.strip()]
    differing = next(
        (
            f"Line {number} is {clip(line.strip(), 120)!r}, quoted as {clip(mine.strip(), 120)!r}. "
            for mine, (number, line) in zip(quoted, theirs, strict=False)
            if mine.strip() != line.strip()
        ),
        "",
    )
    rest = f"\n       (and {more} more)" if more else ""
    return (
        f"Did you mean these lines?\n{number_lines(shown, near.start + 1)}{rest}\n"
        f"{differing}Quote them exactly as they are, without the numbers."
    )


def already_applied(source: IndexedText, old: str, new: str) -> str:
    """The note when the file has the new text and not the old; empty when that is not certain."""
    if not new.strip():
        return ""
    matches = [match for match in find(source, new, new)[1] if _stands_alone(source, match)]
    if not matches:
        return ""
    here = [
        (source.line_at(match.start), source.line_at(max(match.start, match.end - 1)) + 1)
        for match in matches
    ]
    near = find_similar_lines(source, split_quote(old), outside=here)
    if near and near.similarity >= CERTAIN_SIMILARITY:
        return ""  # very similar text elsewhere was probably meant
    where = format_lines(_lines(source, matches), len(matches))
    return f"already applied: 'old' is not in the file, and the new text is at {where}; nothing changed"


def format_count(matches: int) -> str:
    """The number of matches, or that there are more."""
    return f"{matches} or more" if matches >= MAX_MATCHES else str(matches)


def format_lines(lines: Sequence[int], total: int) -> str:
    """The first line numbers of `total`, as text."""
    some = ", ".join(map(str, lines[:MAX_LISTED]))
    more = f" and {total - MAX_LISTED} more" if total > MAX_LISTED else ""
    return f"line{'s' * (total > 1)} {some}{more}"


def _lines(source: IndexedText, matches: Sequence[Match]) -> list[int]:
    return [source.line_at(match.start) + 1 for match in matches[:MAX_LISTED]]


def _stands_alone(source: IndexedText, match: Match) -> bool:
    """True if a match is no part of a word, and long enough to be significant."""
    text = source.content[match.start : match.end]
    before, after = source.content[match.start - 1 : match.start], source.content[match.end : match.end + 1]
    if (is_word(before) and is_word(text[:1])) or (is_word(after) and is_word(text[-1:])):
        return False
    return len(text.strip()) >= _MIN_CHARS or source.bare[source.line_at(match.start)].strip() == text.strip()


def is_word(character: str) -> bool:
    """True if a character can be part of a name."""
    return character.isalnum() or character == "_"
