"""Lines that a search found, and which of them stand together in a file.

A secret may go on in the next line, so lines are looked at together with their
neighbours. ripgrep cuts a long line and says so in a note behind it.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

MAX_LINE_COLUMNS = 5000  # a caller that shows less of a line can look for secrets before
_NOTE = re.compile(r" \[\.\.\. (?:omitted end of long line|[0-9]+ more match(?:es)?)\]\Z")

Mask = Callable[[bytes], bytes]
Clean = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file; one without a match is there for context."""

    path: str
    number: int
    text: str
    matched: bool


def beginning(text: str, columns: int = MAX_LINE_COLUMNS) -> tuple[str, str]:
    """What is there of a line, and ripgrep's note that the line is longer; without a note it is whole."""
    found = _NOTE.search(text)
    # A shorter line is never cut: the note is its own text.
    if found is None or len(text[: found.start()].encode(errors="surrogateescape")) < columns:
        return text, ""
    return text[: found.start()], found[0]


def neighbours(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
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
    shown: list[Line] = []
    for block in neighbours(lines):
        parts = [beginning(line.text) for line in block]
        texts = [settle(text) if note else text for text, note in parts]
        texts = hide_parts(texts, mask_lines(texts, mask), mask)
        for line, text, (_, note) in zip(block, texts, parts, strict=True):
            shown.append(replace(line, text=clean(text) + note))
    return shown
