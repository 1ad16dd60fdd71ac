"""Searches for callers who may only read: a line that holds a secret is no match.

A caller chooses the pattern, so whether a line matches tells what is in it: guess by
guess, a count would give away a whole secret. So lines are read with more context than
the caller wants, those that hold a secret or a part of one are found, and matches in
them are left out before anything is counted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hutch.workspace.found_lines import (
    MAX_LINE_COLUMNS,
    Line,
    Mask,
    beginning,
    hide_parts,
    mask_lines,
    neighbours,
)

AROUND_LINES = 64  # over which a secret may be spread, to be found from any of its lines
MAX_READ_COLUMNS = 64 * 1024  # what a longer line holds is not known, so it is no match
CUT_NOTE = " [... omitted end of long line]"


def matches_without_secrets(
    lines: Sequence[Line], mask: Mask, *, context: int, multiline: bool, last: Line | None
) -> Iterator[Line]:
    """Matching lines without secrets, and the context around them.

    The lines come in order, with `AROUND_LINES` more context than is wanted. After the line `last`, the
    output of the search was cut.
    """
    for block in neighbours(lines):
        parts = [beginning(line.text, MAX_READ_COLUMNS) for line in block]
        texts = [text for text, _ in parts]
        masked = mask_lines(texts, mask)
        is_cut = block[-1] == last
        known = len(block) - AROUND_LINES if is_cut else len(block)  # lines with all of their context
        secret = [
            hidden != text or bool(note) or at >= known
            for at, (hidden, (text, note)) in enumerate(zip(masked, parts, strict=True))
        ]
        if multiline:
            secret = _spread(block, secret)
        matched = [line.matched and not is_secret for line, is_secret in zip(block, secret, strict=True)]
        texts = [
            _shortened(hidden if note or len(hidden) > MAX_LINE_COLUMNS else text, note)
            for text, hidden, (_, note) in zip(hide_parts(texts, masked, mask), masked, parts, strict=True)
        ]
        for at in _shown(matched, context, max(0, known)):
            yield replace(block[at], text=texts[at], matched=matched[at])


def _spread(block: Sequence[Line], secret: list[bool]) -> list[bool]:
    """A match over several lines holds a secret if one of them does."""
    spread, start = list(secret), 0
    for at in range(len(block) + 1):
        if at == len(block) or not block[at].matched:
            if any(secret[start:at]):
                spread[start:at] = [True] * (at - start)
            start = at + 1
    return spread


def _shortened(text: str, note: str) -> str:
    # A cut line may end with a part of a secret: what is shown of it ends long before.
    return text[:MAX_LINE_COLUMNS] + CUT_NOTE if note or len(text) > MAX_LINE_COLUMNS else text


def _shown(matched: Sequence[bool], context: int, known: int) -> Iterator[int]:
    """The places of matches and of the lines around them."""
    shown = 0
    for at in (at for at, is_match in enumerate(matched) if is_match):
        end = min(at + context + 1, known)
        yield from range(max(shown, at - context), end)
        shown = max(shown, end)
