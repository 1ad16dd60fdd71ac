"""The text that the hunks of a patch lead to.

Only removed and added lines are touched. Context keeps the file's bytes, and an
added line gets the indentation and the line end of the place it goes to.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hutch.domain.errors import BadRequest
from hutch.edit.edit import Plan, refuse_placeholder
from hutch.edit.indent import Shift, shift_between
from hutch.edit.ladder import IndexedText, Rung
from hutch.edit.operation import Hunk, HunkLine
from hutch.edit.placement import PlacedHunk, place_hunks
from hutch.edit.replacement import keep_punctuation
from hutch.edit.spans import Replacement, apply_replacements, compose, separate_ends
from hutch.edit.text import common_ending, ending, separate_line_ends, without_ending


class _Run(NamedTuple):
    """Lines of the file that are replaced by new ones, with their ends."""

    start: int
    end: int
    lines: list[str]
    literal: bool  # the patch says whether the last line has an end


def plan_hunks(content: str, hunks: Sequence[Hunk]) -> Plan:
    """The text with all of these hunks applied; an error says which one does not fit, and why."""
    page = IndexedText(content)
    notes: list[str] = []
    runs: list[_Run] = []
    for placed in place_hunks(page, hunks):
        which = f"hunk {placed.number}" if len(hunks) > 1 else "the hunk"
        if placed.applied:
            notes.append(f"{which} is already applied at line {placed.line + 1}")
            continue
        _check(page, placed, which)
        if placed.rung.note:
            notes.append(f"{which} {placed.rung.note}")
        runs += _runs(page, placed)
    replacements = list(_replacements(page, runs))
    told = tuple(f"{note[0].upper()}{note[1:]}." for note in notes)
    after, spans = separate_ends(apply_replacements(content, replacements), compose((), replacements))
    return Plan(after, tuple(spans), told)


def _check(page: IndexedText, placed: PlacedHunk, which: str) -> None:
    added = [piece.text for piece in placed.hunk.pieces if piece.sign == "+"]
    removed = [piece.text for piece in placed.hunk.pieces if piece.sign == "-"]
    try:
        refuse_placeholder(added, page.content, shorter=len(added) < len(removed))
        if _changes_line_ends_only(placed.hunk):
            raise BadRequest(
                "it changes line ends only, and a patch keeps those of the file."
                " To convert them, use bash: sed -i 's/\\r$//' FILE, or sed -i 's/$/\\r/' FILE."
            )
    except BadRequest as error:
        raise BadRequest(f"{which[0].upper()}{which[1:]}: {error}") from None


def _changes_line_ends_only(hunk: Hunk) -> bool:
    same = [piece.text for piece in hunk.old] == [piece.text for piece in hunk.new]
    ends = zip(hunk.old, hunk.new, strict=False)
    return same and any(one.end and other.end and one.end != other.end for one, other in ends)


def _runs(page: IndexedText, placed: PlacedHunk) -> Iterator[_Run]:
    """The runs of removed and added lines of one hunk."""
    hunk, line = placed.hunk, placed.line
    end = _end_for(page, placed)
    literal = placed.rung is Rung.EXACT and (bool(hunk.old) or hunk.open_new)
    for start, stop, first, pieces in _changed(hunk):
        added = [piece for piece in pieces if piece.sign == "+"]
        texts = [text + end for text in _adapted(page, placed, pieces, added, first)]
        if literal and added and not added[-1].end:
            texts[-1] = without_ending(texts[-1])
        yield _Run(line + start, line + stop, texts, literal)


def _end_for(page: IndexedText, placed: PlacedHunk) -> str:
    """The line end of added lines: that of the lines around, or the hunk's own if the file has none."""
    line = placed.line
    if not page.has_cr:
        ends = " ".join(piece.end for piece in placed.hunk.new)  # a CR and an LF do not make one end
        return "\n" if "\n" in page.content else common_ending(ends)
    near = page.lines[line : placed.end] or page.lines[max(line - 1, 0) : line + 1]
    return common_ending(page.content, "".join(near))


def _changed(hunk: Hunk) -> Iterator[tuple[int, int, int, list[HunkLine]]]:
    """Each run without context: the old lines it covers, and the pieces, from the `first` of the hunk."""
    old = start = first = 0
    run: list[HunkLine] = []
    for number, piece in enumerate((*hunk.pieces, HunkLine(" ", "", ""))):
        if piece.sign == " ":
            if run:
                yield start, old, first, run
            run = []
            old += 1
            continue
        if not run:
            start, first = old, number
        run.append(piece)
        old += piece.sign == "-"


def _adapted(
    page: IndexedText, placed: PlacedHunk, run: list[HunkLine], added: list[HunkLine], first: int
) -> list[str]:
    """The added lines of a run as they fit where the hunk was found."""
    texts = [piece.text for piece in added]
    rung, hunk = placed.rung, placed.hunk
    old = [piece.text for piece in hunk.old]
    found = page.bare[placed.line : placed.end]
    if rung in (Rung.INDENT, Rung.PUNCTUATION_INDENT):
        near = page.bare[max(placed.line - 40, 0) : placed.end + 40]
        shift = shift_between(old, found, texts, near) or shift_between(old, found, [], near)
        return [_shifted(shift, text) for text in texts]
    before = sum(piece.sign != "+" for piece in hunk.pieces[:first])
    removed = sum(piece.sign == "-" for piece in run)
    if rung is Rung.UNEVEN:
        # Like the removed line in its place, else like the nearest line above, else the one below.
        similarity = [
            before + min(number, removed - 1) if removed else max(before - 1, 0)
            for number in range(len(texts))
        ]
        return [
            _shifted(shift_between([old[index]], [found[index]], [text], []), text)
            for index, text in zip(similarity, texts, strict=True)
        ]
    if rung is Rung.PUNCTUATION and removed == len(texts):
        return [
            keep_punctuation(old[before + number], text, found[before + number])
            for number, text in enumerate(texts)
        ]
    return texts


def _shifted(shift: Shift | None, text: str) -> str:
    moved = shift.line(text) if shift else None
    return text if moved is None else moved


def _replacements(page: IndexedText, runs: list[_Run]) -> Iterator[Replacement]:
    """The runs as replacements of text; only the end of the file may lack a line end."""
    total = len(page.bare)
    closed = not page.is_open  # whether the last line that is kept has its end
    for number, (start, end, lines, literal) in enumerate(runs):
        at_end = end == total and number + 1 == len(runs)
        texts = [line if ending(line) else line + common_ending(page.content) for line in lines]
        if at_end and texts and (page.is_open if not literal else not ending(lines[-1])):
            texts[-1] = texts[-1][: len(texts[-1]) - len(ending(texts[-1]))]
        if start == total and not closed and texts:
            texts.insert(0, common_ending(page.content))
        closed = closed or end == total
        first, last, text = page.start_of(start), page.start_of(end), "".join(texts)
        if page.has_cr:
            text = separate_line_ends(
                page.content[max(first - 1, 0) : first], text, page.content[last : last + 1]
            )
        yield Replacement(first, last, text)
