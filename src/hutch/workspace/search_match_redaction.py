"""Lines that a search found: adjacent lines, and lines that contain a secret.

A secret may continue in the next line, so adjacent lines are checked together. ripgrep
truncates long lines and appends a note.

For read-only callers, a line with a secret is no match. The caller chooses the pattern,
so a match reveals content: with enough guesses, a count would reveal the whole secret.
So lines are read with more context than requested, and matches in lines with any part
of a secret are removed before counting.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from hutch.system.lazy_dataclass import dataclass

MAX_LINE_COLUMNS = 5000  # callers that show less can redact first
_NOTE = re.compile(r" \[\.\.\. (?:omitted end of long line|[0-9]+ more match(?:es)?)\]\Z")

Mask = Callable[[bytes], bytes]
Clean = Callable[[str], str]
AROUND_LINES = 64  # a secret may span this many lines
MAX_READ_COLUMNS = 64 * 1024  # longer lines are not read whole, so they never match
CUT_NOTE = " [... omitted end of long line]"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file, either a match or context."""

    path: str
    number: int
    text: str
    matched: bool


def split_cut_note(text: str, columns: int = MAX_LINE_COLUMNS) -> tuple[str, str]:
    """Split ripgrep's truncation note from a line. The note of a whole line is empty."""
    found = _NOTE.search(text)
    # A shorter line is never truncated: the note is part of the line.
    if found is None or len(text[: found.start()].encode(errors="surrogateescape")) < columns:
        return text, ""
    return text[: found.start()], found[0]


def adjacent_blocks(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """Group lines into blocks of consecutive lines of one file."""
    start = 0
    for at in range(1, len(lines) + 1):
        before = lines[at - 1]
        if at == len(lines) or (lines[at].path, lines[at].number) != (before.path, before.number + 1):
            yield lines[start:at]
            start = at


def mask_lines(texts: Sequence[str], mask: Mask) -> list[str]:
    """Mask each byte of a secret in consecutive lines with `*`, also across lines."""
    masked = mask("\n".join(texts).encode(errors="surrogateescape"))
    return masked.decode(errors="surrogateescape").split("\n")


def hide_parts(texts: Sequence[str], masked: Sequence[str], mask: Mask) -> list[str]:
    """Mask only secrets that span lines.

    A line with a whole secret is not masked: it can be redacted by the secret's name.
    """
    return [
        text if hidden == text or mask_lines([text], mask) == [hidden] else hidden
        for text, hidden in zip(texts, masked, strict=True)
    ]


def redact_lines(lines: Sequence[Line], *, clean: Clean, settle: Clean, mask: Mask) -> list[Line]:
    """Redact secrets, also across lines and at the end of truncated lines.

    `settle` removes a partial secret from the end of a truncated text.
    """
    visible: list[Line] = []
    for block in adjacent_blocks(lines):
        parts = [split_cut_note(line.text) for line in block]
        texts = [settle(text) if note else text for text, note in parts]
        texts = hide_parts(texts, mask_lines(texts, mask), mask)
        for line, text, (_, note) in zip(block, texts, parts, strict=True):
            visible.append(replace(line, text=clean(text) + note))
    return visible


def matches_without_secrets(
    lines: Sequence[Line], mask: Mask, *, context: int, multiline: bool, last: Line | None
) -> Iterator[Line]:
    """Matching lines without secrets, and their context.

    The lines are in order, with `AROUND_LINES` more context than requested. If `last` is given, the output
    was truncated after that line.
    """
    for block in adjacent_blocks(lines):
        parts = [split_cut_note(line.text, MAX_READ_COLUMNS) for line in block]
        texts = [text for text, _ in parts]
        masked = mask_lines(texts, mask)
        is_cut = block[-1] == last
        known = len(block) - AROUND_LINES if is_cut else len(block)  # lines with complete context
        secret = [
            hidden != text or bool(note) or at >= known
            for at, (hidden, (text, note)) in enumerate(zip(masked, parts, strict=True))
        ]
        if multiline:
            secret = _spread_over_matches(block, secret)
        matched = [line.matched and not is_secret for line, is_secret in zip(block, secret, strict=True)]
        texts = [
            _shorten(hidden if note or len(hidden) > MAX_LINE_COLUMNS else text, note)
            for text, hidden, (_, note) in zip(hide_parts(texts, masked, mask), masked, parts, strict=True)
        ]
        for at in _visible_positions(matched, context, max(0, known)):
            yield replace(block[at], text=texts[at], matched=matched[at])


def _spread_over_matches(block: Sequence[Line], secret: list[bool]) -> list[bool]:
    """A multi-line match contains a secret if one of its lines does."""
    spread, start = list(secret), 0
    for at in range(len(block) + 1):
        if at == len(block) or not block[at].matched:
            if any(secret[start:at]):
                spread[start:at] = [True] * (at - start)
            start = at + 1
    return spread


def _shorten(text: str, note: str) -> str:
    # A truncated line may end with a partial secret: the visible part ends long before.
    return text[:MAX_LINE_COLUMNS] + CUT_NOTE if note or len(text) > MAX_LINE_COLUMNS else text


def _visible_positions(matched: Sequence[bool], context: int, known: int) -> Iterator[int]:
    """The indexes of matches and their context lines."""
    visible = 0
    for at in (at for at, is_match in enumerate(matched) if is_match):
        end = min(at + context + 1, known)
        yield from range(max(visible, at - context), end)
        visible = max(visible, end)
