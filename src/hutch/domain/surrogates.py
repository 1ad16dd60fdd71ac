"""Text without lone surrogates, which JSON and UTF-8 cannot hold.

They stand for bytes that are no UTF-8, in names of files and in files themselves.
"""

import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def replace_surrogates(text: str) -> str:
    """Text that can be sent to anybody: what is no character becomes U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)
