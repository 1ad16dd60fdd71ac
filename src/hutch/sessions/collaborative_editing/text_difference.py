"""The smallest useful difference of two texts, as replacements at offsets in UTF-8.

Yjs merges by characters, so a replacement that covers more than was changed would take text of others with
it. Lines are compared first, then the ends of each changed block are trimmed to the characters that differ.
"""

from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher

MAX_COMPARED_LINES = 4000  # in the part that differs; beyond it that part is replaced as a whole
MAX_EQUAL_PAIRS = 20_000  # of an old and a new line: with more, comparing takes minutes

Replacement = tuple[int, int, str]
"""From a byte to a byte, and the new text."""


def find_replacements(before: str, after: str) -> list[Replacement]:
    """The replacements that turn one text into the other, in order of position."""
    if before == after:
        return []
    return list(_in_bytes(before, _changed_parts(before, after)))


def _changed_parts(before: str, after: str) -> Iterator[tuple[int, int, str]]:
    """The replacements at offsets in characters."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    first = _common_start(old, new)
    last = _common_start(old[first:][::-1], new[first:][::-1])
    position = sum(map(len, old[:first]))
    old, new = old[first : len(old) - last], new[first : len(new) - last]
    is_repetitive = _equal_pairs(old, new) > MAX_EQUAL_PAIRS
    if len(old) + len(new) > MAX_COMPARED_LINES or (
        is_repetitive and _equal_pairs(old, new, without_popular=True) > MAX_EQUAL_PAIRS
    ):
        yield _trimmed(position, "".join(old), "".join(new))
        return
    offsets = [position]
    for line in old:
        offsets.append(offsets[-1] + len(line))
    matcher = SequenceMatcher(None, old, new, autojunk=is_repetitive)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind != "equal":
            yield _trimmed(offsets[start], "".join(old[start:end]), "".join(new[new_start:new_end]))


def _equal_pairs(old: list[str], new: list[str], *, without_popular: bool = False) -> int:
    """How many pairs of an old and a new line are equal; perhaps without lines that `autojunk` ignores."""
    found = Counter(new)
    most = len(new) // 100 + 1 if without_popular and len(new) >= 200 else len(new)
    return sum(found[line] for line in old if found[line] <= most)


def _trimmed(position: int, old: str, new: str) -> tuple[int, int, str]:
    first = _common_start(old, new)
    last = _common_start(old[first:][::-1], new[first:][::-1])
    return position + first, position + len(old) - last, new[first : len(new) - last]


def _common_start(one: list[str] | str, other: list[str] | str) -> int:
    for index, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return index
    return min(len(one), len(other))


def _in_bytes(text: str, parts: Iterator[tuple[int, int, str]]) -> Iterator[Replacement]:
    chars = size = 0
    for start, end, replacement in parts:
        size += len(text[chars:start].encode())
        chars = start
        length = len(text[start:end].encode())
        yield size, size + length, replacement
