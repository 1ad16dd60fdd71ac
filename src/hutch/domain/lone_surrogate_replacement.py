"""Text without lone surrogates, which JSON and UTF-8 cannot hold.

They stand for bytes that are not UTF-8, in file names and in files.
"""

import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates by U+FFFD, so that the text can be encoded."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)
