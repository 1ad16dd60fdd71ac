"""Applies the hunks of a patch to a text.

Only removed and added lines are touched. Context keeps the file's bytes, and an
added line gets the indentation and the line end of its neighbours.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hutch.domain.errors import BadRequest
from hutch.edit.encoded_file_text import common_ending, ending, separate_line_ends, without_ending
from hutch.edit.file_edits import Plan, refuse_placeholder
from hutch.edit.fuzzy_match import IndexedText, MatchLevel
from hutch.edit.hunk_placement import PlacedHunk, place_hunks
from hutch.edit.indent_shift import Shift, shift_between
from hutch.edit.patch_operation_types import Hunk, HunkLine
from hutch.edit.quoted_text_replacement import keep_punctuation
from hutch.edit.span_mapping_across_edits import Replacement, apply_replacements, compose, separate_ends


class _Run(NamedTuple):
    """Lines of the file that are replaced, and the new lines with their ends."""

    start: int
    end: int
    lines: list[str]
    literal: bool  # the patch determines whether the last line has an end


def plan_hunks(content: str, hunks: Sequence[Hunk]) -> Plan:
    """Apply all of these hunks; an error says which one does not match, and why."""
    source = IndexedText(content)
    notes: list[str] = []
    runs: list[_Run] = []
    for placed in place_hunks(source, hunks):
        which = f"hunk {placed.number}" if len(hunks) > 1 else "the hunk"
        if placed.applied:
            notes.append(f"{which} is already applied at line {placed.line + 1}")
            continue
        _check(source, placed, which)
        if placed.level.note:
            notes.append(f"{which} {placed.level.note}")
        runs += _runs(source, placed)
    replacements = list(_replacements(source, runs))
    sentences = tuple(f"{note[0].upper()}{note[1:]}." for note in notes)
    after, spans = separate_ends(apply_replacements(content, replacements), compose((), replacements))
    return Plan(after, tuple(spans), sentences)


def _check(source: IndexedText, placed: PlacedHunk, which: str) -> None:
    added = [hunk_line.text for hunk_line in placed.hunk.file_lines if hunk_line.sign == "+"]
    removed = [hunk_line.text for hunk_line in placed.hunk.file_lines if hunk_line.sign == "-"]
    try:
        refuse_placeholder(added, source.content, shorter=len(added) < len(removed))
        if _changes_line_ends_only(placed.hunk):
            raise BadRequest(
                "it changes line ends only, and a patch keeps those of the file."
                " To convert them, use bash: sed -i 's/\\r$//' FILE, or sed -i 's/$/\\r/' FILE."
            )
    except BadRequest as error:
        raise BadRequest(f"{which[0].upper()}{which[1:]}: {error}") from None


def _changes_line_ends_only(hunk: Hunk) -> bool:
    same = [hunk_line.text for hunk_line in hunk.old] == [hunk_line.text for hunk_line in hunk.new]
    ends = zip(hunk.old, hunk.new, strict=False)
    return same and any(one.end and other.end and one.end != other.end for one, other in ends)


def _runs(source: IndexedText, placed: PlacedHunk) -> Iterator[_Run]:
    """The runs of removed and added lines of one hunk."""
    hunk, line = placed.hunk, placed.line
    end = _end_for(source, placed)
    literal = placed.level is MatchLevel.EXACT and (bool(hunk.old) or hunk.open_new)
    for start, stop, first, hunk_lines in _changed(hunk):
        added = [hunk_line for hunk_line in hunk_lines if hunk_line.sign == "+"]
        texts = [text + end for text in _adapted(source, placed, hunk_lines, added, first)]
        if literal and added and not added[-1].end:
            texts[-1] = without_ending(texts[-1])
        yield _Run(line + start, line + stop, texts, literal)


def _end_for(source: IndexedText, placed: PlacedHunk) -> str:
    """The line end of added lines: that of nearby lines, or the hunk's own if the file has none."""
    line = placed.line
    if not source.has_cr:
        # The space keeps a CR and an LF apart.
        ends = " ".join(hunk_line.end for hunk_line in placed.hunk.new)
        return "\n" if "\n" in source.content else common_ending(ends)
    near = source.lines[line : placed.end] or source.lines[max(line - 1, 0) : line + 1]
    return common_ending(source.content, "".join(near))


def _changed(hunk: Hunk) -> Iterator[tuple[int, int, int, list[HunkLine]]]:
    """Each run without context: the old lines that it covers, and its lines from `first` of the hunk on."""
    old = start = first = 0
    run: list[HunkLine] = []
    for number, hunk_line in enumerate((*hunk.file_lines, HunkLine(" ", "", ""))):
        if hunk_line.sign == " ":
            if run:
                yield start, old, first, run
            run = []
            old += 1
            continue
        if not run:
            start, first = old, number
        run.append(hunk_line)
        old += hunk_line.sign == "-"


def _adapted(
    source: IndexedText, placed: PlacedHunk, run: list[HunkLine], added: list[HunkLine], first: int
) -> list[str]:
    """The added lines of a run, adapted to the lines where the hunk matched."""
    texts = [hunk_line.text for hunk_line in added]
    level, hunk = placed.level, placed.hunk
    old = [hunk_line.text for hunk_line in hunk.old]
    found = source.bare[placed.line : placed.end]
    if level in (MatchLevel.INDENT, MatchLevel.PUNCTUATION_INDENT):
        near = source.bare[max(placed.line - 40, 0) : placed.end + 40]
        shift = shift_between(old, found, texts, near) or shift_between(old, found, [], near)
        return [_shifted(shift, text) for text in texts]
    before = sum(hunk_line.sign != "+" for hunk_line in hunk.file_lines[:first])
    removed = sum(hunk_line.sign == "-" for hunk_line in run)
    if level is MatchLevel.UNEVEN:
        # Indent like the removed line, else like the line above, else like the one below.
        models = [
            before + min(number, removed - 1) if removed else max(before - 1, 0)
            for number in range(len(texts))
        ]
        return [
            _shifted(shift_between([old[index]], [found[index]], [text], []), text)
            for index, text in zip(models, texts, strict=True)
        ]
    if level is MatchLevel.PUNCTUATION and removed == len(texts):
        return [
            keep_punctuation(old[before + number], text, found[before + number])
            for number, text in enumerate(texts)
        ]
    return texts


def _shifted(shift: Shift | None, text: str) -> str:
    moved = shift.line(text) if shift else None
    return text if moved is None else moved


def _replacements(source: IndexedText, runs: list[_Run]) -> Iterator[Replacement]:
    """The runs as replacements; only the last line of the file may lack a line end."""
    total = len(source.bare)
    closed = not source.is_open  # whether the last remaining line has its end
    for number, (start, end, lines, literal) in enumerate(runs):
        at_end = end == total and number + 1 == len(runs)
        texts = [line if ending(line) else line + common_ending(source.content) for line in lines]
        if at_end and texts and (source.is_open if not literal else not ending(lines[-1])):
            texts[-1] = texts[-1][: len(texts[-1]) - len(ending(texts[-1]))]
        if start == total and not closed and texts:
            texts.insert(0, common_ending(source.content))
        closed = closed or end == total
        first, last, text = source.start_of(start), source.start_of(end), "".join(texts)
        if source.has_cr:
            text = separate_line_ends(
                source.content[max(first - 1, 0) : first], text, source.content[last : last + 1]
            )
        yield Replacement(first, last, text)
