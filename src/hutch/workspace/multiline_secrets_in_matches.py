"""Reads the lines around search matches, so that secrets across lines are recognized.

A secret may span lines that do not match, and its part in a matching line is not
recognizable alone. So the surrounding lines are read from the file for the redactor.
They are not returned.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from hutch.domain.errors import HutchError
from hutch.domain.redaction import CUT_CONTEXT_CHARS, mask_across
from hutch.snapshots.confined_directory import Directory
from hutch.workspace.files.change_planning import open_file
from hutch.workspace.files.partial_read import MAX_WHOLE_FILE_BYTES
from hutch.workspace.search_match_redaction import Line, Mask, adjacent_blocks, split_cut_note

AROUND_LINES = 2048  # surrounding lines that are read at most
MAX_READ_BYTES = 128 * 1024 * 1024  # of all files of one result
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def hide_across_lines(tree: Directory, lines: Sequence[Line], mask: Mask) -> list[Line]:
    """Mask each byte of a secret that continues outside the given lines with `*`. Blocks the thread.

    A secret that lies whole in them is not masked: the caller redacts it by its name.
    """
    visible: list[Line] = []
    remaining_bytes = MAX_READ_BYTES
    for path, found in groupby(lines, key=lambda line: line.path):
        data = _content(tree, path) if remaining_bytes > 0 else b""
        remaining_bytes -= len(data)
        readings = list(_decode_variants(data))
        for block in adjacent_blocks(list(found)):
            there = next((each for each in readings if _is_unchanged(block, each)), None)
            visible += block if there is None else _hide(block, there, mask)
    return visible


def _content(tree: Directory, path: str) -> bytes:
    """The beginning of a file; empty if it does not exist any more."""
    try:
        fd = open_file(tree, path)
    except HutchError:
        return b""
    with os.fdopen(fd, "rb") as file:
        try:
            return file.read(MAX_WHOLE_FILE_BYTES)
        except OSError:
            return b""


def _decode_variants(data: bytes) -> Iterator[list[str]]:
    """The lines of a file in each encoding that ripgrep may have used."""
    encodings = ("utf-16",) if data.startswith(UTF_16) else ("utf-8-sig", "latin-1")
    for encoding in encodings:
        text = data.decode(encoding, errors="replace")
        yield [line.rstrip("\r") for line in text.split("\n")]


def _is_unchanged(block: Sequence[Line], there: list[str]) -> bool:
    """True if the file still contains these lines."""
    for line in block:
        text, note = split_cut_note(line.text)
        own = there[line.number - 1] if line.number <= len(there) else None
        if own is None or not (own.startswith(text) if note else own == text):
            return False
    return True


def _hide(block: Sequence[Line], there: list[str], mask: Mask) -> Iterator[Line]:
    first, last = block[0].number - 1, block[-1].number
    parts = [split_cut_note(line.text) for line in block]
    # For a truncated line, also read what follows the cut.
    texts = [
        own[: len(text) + CUT_CONTEXT_CHARS] for own, (text, _) in zip(there[first:last], parts, strict=True)
    ]
    before = "".join(f"{line}\n" for line in there[max(0, first - AROUND_LINES) : first])[-CUT_CONTEXT_CHARS:]
    after = "".join(f"\n{line}" for line in there[last : last + AROUND_LINES])[:CUT_CONTEXT_CHARS]
    start, here = before.encode(), "\n".join(texts).encode()
    masked = mask_across(start + here + after.encode(), len(start), len(start) + len(here), mask)
    for line, (text, note), hidden in zip(block, parts, masked.split(b"\n"), strict=True):
        yield replace(line, text=hidden[: len(text.encode())].decode(errors="replace") + note)
