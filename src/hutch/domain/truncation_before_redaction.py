"""Truncation between words, for a text that is redacted only after it is cut.

Half of a secret is not recognised. Where a redactor is available, redact first and cut then.
These functions are for error messages and the like, which are redacted when they are sent.
"""

import re

_SPACE = re.compile(r"\s")


def first_words(text: str, max_chars: int) -> str:
    """As many whole words from the beginning as fit into `max_chars` characters."""
    if len(text) <= max_chars:
        return text
    ends = [found.start() for found in _SPACE.finditer(text, 0, max_chars + 1)]
    return text[: ends[-1]].rstrip() if ends else ""


def last_words(text: str, max_chars: int) -> str:
    """As many whole words from the end as fit into `max_chars` characters."""
    if len(text) <= max_chars:
        return text
    begin = _SPACE.search(text, len(text) - max_chars - 1)
    return text[begin.end() :].lstrip() if begin else ""
