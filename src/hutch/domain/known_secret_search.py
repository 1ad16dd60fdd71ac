"""Quick searches for known values in long texts, and in texts that end inside of one. For `redaction`."""

from collections.abc import Iterable, Iterator

MIN_PREFIX_CHARS = 4  # a streamed text that ends with this much of a value is held back
CHUNK_CHARS = 32 * 1024  # of a long text that are searched together


def partial_starts(text: str, values: Iterable[str], min_chars: int) -> Iterator[int]:
    """For each value, where the text's end begins that is a prefix of the value."""
    for value in values:
        first, place = value[:min_chars], max(0, len(text) - len(value) + 1)
        while (place := text.find(first, place)) >= 0:
            if value.startswith(text[place:]):
                yield place
                break
            place += 1


def overlapping_chunks(text: str, *, around: int) -> Iterator[tuple[int, str]]:
    """A long text in chunks that overlap by `around` characters; each with its offset."""
    if len(text) <= 2 * CHUNK_CHARS or around > CHUNK_CHARS:
        yield 0, text
        return
    for at in range(0, len(text), CHUNK_CHARS):
        start = max(0, at - around)
        yield start, text[start : at + CHUNK_CHARS + around]


def is_broken(text: str, text_outline: bytes, value: str, value_outline: bytes) -> bool:
    """True if a text may contain a value with line breaks in it; a quick check."""
    if len(value_outline) < MIN_PREFIX_CHARS:  # too short to be significant
        return value[:MIN_PREFIX_CHARS] in text or value[-MIN_PREFIX_CHARS:] in text
    if value_outline not in text_outline:
        return False
    repeats = any(value_outline.startswith(value_outline[at:]) for at in range(1, len(value_outline)))
    return repeats or text_outline.count(value_outline) > text.count(value)
