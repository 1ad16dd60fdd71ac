"""Splits a text into words."""

import re

WORD = re.compile(r"[a-z0-9]+")


def words(text: str) -> list[str]:
    """The words of a text in their order: letters and digits, in lower case."""
    return WORD.findall(text.lower())
