"""Lines that a search found: which of them stand together in a file, and which hold a secret.

A secret may go on in the next line, so lines are looked at together with their
neighbours. ripgrep cuts a long line and says so in a note behind it.

For callers who may only read, a line that holds a secret is no match. A caller
chooses the pattern, so whether a line matches tells what is in it: guess by guess,
a count would give away a whole secret. So lines are read with more context than the
caller wants, those that hold a secret or a part of one are found, and matches in
them are left out before anything is counted.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

MAX_LINE_COLUMNS = 5000  # a caller that shows less of a line can look for secrets before
_NOTE = re.compile(r" \[\.\.\. (?:omitted end of long line|[0-9]+ more match(?:es)?)\]\Z")

Mask = Callable[[bytes], bytes]
Clean = Callable[[str], str]
AROUND_LINES = 64  # over which a secret may be spread, to be found from any of its lines
MAX_READ_COLUMNS = 64 * 1024  # what a longer line holds is not known, so it is no match
CUT_NOTE = " [... omitted end of long line]"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file; one without a match is there for context."""

    path: str
    number: int
    text: str
    matched: bool


def split_cut_note(text: str, columns: int = MAX_LINE_COLUMNS) -> tuple[str, str]:
    """What is there of a line, and ripgrep's note that the line is longer; without a note it is whole."""
    found = _NOTE.search(text)
    # A shorter line is never cut: the note is its own text.
    if found is None or len(text[: found.start()].encode(errors="surrogateescape")) < columns:
        return text, ""
    return text[: found.start()], found[0]


def adjacent_blocks(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """The lines in blocks; in a block, each is the next line of the same file."""
    start = 0
    for at in range(1, len(lines) + 1):
        before = lines[at - 1]
        if at == len(lines) or (lines[at].path, lines[at].number) != (before.path, before.number + 1):
            yield lines[start:at]
            start = at


def mask_lines(texts: Sequence[str], mask: Mask) -> list[str]:
    """Lines that follow each other, with a `*` for each byte of a secret, also of one across lines."""
    masked = mask("\n".join(texts).encode(errors="surrogateescape"))
    return masked.decode(errors="surrogateescape").split("\n")


def hide_parts(texts: Sequence[str], masked: Sequence[str], mask: Mask) -> list[str]:
    """Lines with a `*` for each byte of a secret that is across lines.

    A line that holds a whole secret stays as it is: alone, it can be redacted by the secret's name.
    """
    return [
        text if hidden == text or mask_lines([text], mask) == [hidden] else hidden
        for text, hidden in zip(texts, masked, strict=True)
    ]


def redact_lines(lines: Sequence[Line], *, clean: Clean, settle: Clean, mask: Mask) -> list[Line]:
    """The lines without secrets, also one that goes on in the next line or where a long line was cut.

    `settle` leaves away the beginning of a secret at the end of a text that goes on.
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
    """Matching lines without secrets, and the context around them.

    The lines come in order, with `AROUND_LINES` more context than is wanted. After the line `last`, the
    output of the search was cut.
    """
    for block in adjacent_blocks(lines):
        parts = [split_cut_note(line.text, MAX_READ_COLUMNS) for line in block]
        texts = [text for text, _ in parts]
        masked = mask_lines(texts, mask)
        is_cut = block[-1] == last
        known = len(block) - AROUND_LINES if is_cut else len(block)  # lines with all of their context
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
    """A match over several lines holds a secret if one of them does."""
    spread, start = list(secret), 0
    for at in range(len(block) + 1):
        if at == len(block) or not block[at].matched:
            if any(secret[start:at]):
                spread[start:at] = [True] * (at - start)
            start = at + 1
    return spread


def _shorten(text: str, note: str) -> str:
    # A cut line may end with a part of a secret: what is shown of it ends long before.
    return text[:MAX_LINE_COLUMNS] + CUT_NOTE if note or len(text) > MAX_LINE_COLUMNS else text


def _visible_positions(matched: Sequence[bool], context: int, known: int) -> Iterator[int]:
    """The places of matches and of the lines around them."""
    visible = 0
    for at in (at for at, is_match in enumerate(matched) if is_match):
        end = min(at + context + 1, known)
        yield from range(max(visible, at - context), end)
        visible = max(visible, end)
