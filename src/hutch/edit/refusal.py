"""What is said when quoted text cannot be replaced, so that the next try hits.

A message shows the lines that were probably meant, or every place that matched.
Text that is there already is no refusal at all.
"""

from collections.abc import Sequence

from hutch.domain.errors import Conflict
from hutch.edit.excerpt import clipped, numbered
from hutch.edit.ladder import Page, Rung
from hutch.edit.placeholder import line_numbers, without_numbers
from hutch.edit.replacement import MOST_MATCHES, Match, find, quoted_lines
from hutch.edit.similar_lines import Nearest, nearest

MOST_TOLD = 50
_MOST_SHOWN = 15
SURELY_MEANT = 0.8
_LEAST_LENGTH = 3


def ambiguous(page: Page, rung: Rung, matches: Sequence[Match]) -> Conflict:
    """Why text that is there more than once was not replaced."""
    lines = _lines(page, matches)
    how = f" ({rung.told})" if rung.told else ""
    return Conflict(
        f"'old' is in the file {count(len(matches))} times{how}: {listed(lines, len(matches))}."
        " Quote more of the lines around the one that is meant, or set replace_all."
    )


def not_found(page: Page, old: str) -> Conflict:
    """Why text that is not there was not replaced, with the lines that are most like it."""
    lines = quoted_lines(old)
    if line_numbers(lines):
        stripped = "\n".join(without_numbers(lines))
        there = " Without them it is there." if find(page, stripped)[1] else ""
        return Conflict(
            "'old' is not in the file: its lines begin with their numbers, as a listing has them."
            f" The file does not have them: leave them out.{there}"
        )
    near = nearest(page, lines)
    if near is None:
        return Conflict(
            "'old' is not in the file, nor anything like it. Read the file again and quote it as it is"
            " now, or look for the text in another file."
        )
    return Conflict(f"'old' is not in the file. {did_you_mean(page, near, lines)}")


def did_you_mean(page: Page, near: Nearest, wanted: Sequence[str]) -> str:
    """The lines that were probably meant, numbered, and where they first differ from the quote."""
    shown = page.bare[near.start : min(near.end, near.start + _MOST_SHOWN)]
    more = near.end - near.start - len(shown)
    quote = [line for line in wanted if line.strip()]
    theirs = [(number, line) for number, line in enumerate(shown, start=near.start + 1) if line.strip()]
    differing = next(
        (
            f"Line {number} is {clipped(line.strip(), 120)!r}, quoted as {clipped(mine.strip(), 120)!r}. "
            for mine, (number, line) in zip(quote, theirs, strict=False)
            if mine.strip() != line.strip()
        ),
        "",
    )
    rest = f"\n       (and {more} more)" if more else ""
    return (
        f"Did you mean these lines?\n{numbered(shown, near.start + 1)}{rest}\n"
        f"{differing}Quote them exactly as they are, without the numbers."
    )


def already_applied(page: Page, old: str, new: str) -> str:
    """What is told when the new text is there and the old is not; empty when that is not sure."""
    if not new.strip():
        return ""
    matches = [match for match in find(page, new, new)[1] if _stands_alone(page, match)]
    if not matches:
        return ""
    here = [
        (page.line_at(match.start), page.line_at(max(match.start, match.end - 1)) + 1) for match in matches
    ]
    near = nearest(page, quoted_lines(old), outside=here)
    if near and near.likeness >= SURELY_MEANT:
        return ""  # something much like the old text is elsewhere: that is what was meant
    where = listed(_lines(page, matches), len(matches))
    return f"already applied: 'old' is not in the file, and the new text is at {where}; nothing changed"


def count(matches: int) -> str:
    """How many, as far as they were counted."""
    return f"{matches} or more" if matches >= MOST_MATCHES else str(matches)


def listed(lines: Sequence[int], total: int) -> str:
    """The first line numbers of so many in all, as people write them."""
    some = ", ".join(map(str, lines[:MOST_TOLD]))
    more = f" and {total - MOST_TOLD} more" if total > MOST_TOLD else ""
    return f"line{'s' * (total > 1)} {some}{more}"


def _lines(page: Page, matches: Sequence[Match]) -> list[int]:
    return [page.line_at(match.start) + 1 for match in matches[:MOST_TOLD]]


def _stands_alone(page: Page, match: Match) -> bool:
    """Not a part of a word, and not so short that it is everywhere."""
    text = page.content[match.start : match.end]
    before, after = page.content[match.start - 1 : match.start], page.content[match.end : match.end + 1]
    if (is_word(before) and is_word(text[:1])) or (is_word(after) and is_word(text[-1:])):
        return False
    return len(text.strip()) >= _LEAST_LENGTH or page.bare[page.line_at(match.start)].strip() == text.strip()


def is_word(character: str) -> bool:
    """Whether it can be part of a name."""
    return character.isalnum() or character == "_"
