"""Detects placeholders for code in new text, and line numbers copied from a listing.

`# ... existing code ...` in an edit would delete the code that it stands for, so
it is refused. Copied line numbers would end up in the file.
"""

import re
from collections.abc import Sequence
from functools import cache

_MAX_LINE_CHARS = 160  # characters; a longer line is no placeholder
_DOTS = r"(?:\.{2,}|…)"
_CODE_NOUN = (
    r"(?:code|file|function|method|class|body|implementation|content|contents|section|block|logic|imports?|tests?"
    r"|functions|methods|classes|lines|part|parts|module|script|component|definitions?|fields|properties|text)"
)
_STATE = (
    r"(?:is|are|remains?|stays?|continues?|goes|kept|keep|left)?\s*(?:the\s+)?"
    r"(?:unchanged|unmodified|same(?:\s+as\s+before)?|as\s+(?:before|is)|here|omitted|untouched|intact)?"
)
_BODY = (
    rf"(?P<dots>{_DOTS})?\s*"
    r"(?:"
    rf"(?:the\s+)?(?:rest|remainder)\s+of\s+(?:the\s+|your\s+|this\s+)?(?:\w+\s+){{0,2}}{_CODE_NOUN}\s*{_STATE}"
    rf"|(?:the\s+)?(?:existing|remaining|previous|other|original|same|unchanged)\s+(?:\w+\s+)?{_CODE_NOUN}"
    rf"(?P<state>\s*{_STATE})"
    r"|(?P<word>unchanged|existing|omitted|snip|same as before|no changes?)"
    r")"
    rf"\s*(?P<after>{_DOTS})?\s*[.!]?"
)
_WRAPPED = re.compile(
    r"\s*(?P<open>//+|#+|--+|;+|%+|/\*+|\*|<!--|\{/\*+|\(\*|\"{3}|'{3}|REM\b|\[|\()?\s*(?P<body>.*?)\s*"
    r"(?P<close>\*+/\}?|-->|\*\)|\"{3}|'{3}|\]|\))?\s*"
)
_ONLY_DOTS = re.compile(_DOTS)
_NUMBER = re.compile(r"\s*(\d{1,7})(?:([\t→])|(?=\r?$))")


@cache
def _body() -> re.Pattern[str]:
    """Compiled on first use: it takes as long as twenty other patterns, which would slow the start."""
    return re.compile(_BODY, re.IGNORECASE)


def find_placeholder(lines: Sequence[str], known: str, *, shorter: bool) -> str | None:
    """The first of these lines that is a placeholder and is not in the text `known`.

    A comment of nothing but dots counts only when the new text is `shorter` than what it replaces.
    """
    for line in lines:
        if (
            len(line) <= _MAX_LINE_CHARS
            and _is_placeholder(line, shorter=shorter)
            and line.strip() not in known
        ):
            return line.strip()
    return None


def _is_placeholder(line: str, *, shorter: bool) -> bool:
    if not (wrapped := _WRAPPED.fullmatch(line)) or not wrapped["body"]:
        return False
    if wrapped["open"] and _ONLY_DOTS.fullmatch(wrapped["body"]):
        return shorter
    match = _body().fullmatch(wrapped["body"].strip("()[]{} "))
    if not match:
        return False
    dotted = bool(match["dots"] or match["after"])
    if match["word"] is not None:
        return dotted
    if match["state"] is not None and not match["state"].strip():
        return dotted  # "other methods" is a heading; "... other methods ..." is not
    return dotted or bool(wrapped["open"])


def leading_line_numbers(lines: Sequence[str]) -> list[int]:
    """The numbers at the start of these lines, as in a listing; empty when there are none."""
    found = [_NUMBER.match(line) for line in lines if line.strip()]
    numbers = [int(match[1]) for match in found if match]
    consecutive = all(number == numbers[0] + index for index, number in enumerate(numbers))
    listed = len(numbers) == len(found) and any(match[2] for match in found if match)
    return numbers if listed and consecutive else []


def strip_line_numbers(lines: Sequence[str]) -> list[str]:
    """Remove the line numbers of a listing."""
    return [_NUMBER.sub("", line, count=1) for line in lines]
