"""Cuts between words, for a text that is redacted only after it was cut.

Half of a secret is not recognised. Where the redactor is at hand, redact first and cut then;
these are for error messages and the like, which are redacted where they leave.
"""

import re

_SPACE = re.compile(r"\s")


def first_words(text: str, most: int) -> str:
    """As many whole words from the beginning as fit into `most` characters."""
    if len(text) <= most:
        return text
    ends = [found.start() for found in _SPACE.finditer(text, 0, most + 1)]
    return text[: ends[-1]].rstrip() if ends else ""


def last_words(text: str, most: int) -> str:
    """As many whole words from the end as fit into `most` characters."""
    if len(text) <= most:
        return text
    begin = _SPACE.search(text, len(text) - most - 1)
    return text[begin.end() :].lstrip() if begin else ""
