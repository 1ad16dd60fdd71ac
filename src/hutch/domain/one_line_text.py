"""Text from a repository, a path, a caller or a server, checked or quoted for a message of one line."""

import re

from hutch.domain.errors import BadRequest
from hutch.system.terminal_safe_text import printable

# Control characters, line separators, lone surrogates, and characters that reverse the text after them.
_NOT_IN_A_LINE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def echo(text: str, max_chars: int = 80) -> str:
    """A caller's text, quoted for an error: whole or not at all, since half a secret is not redacted."""
    return repr(text) if len(text) <= max_chars else f"(a text of {len(text):,} characters)"


def is_line(text: str) -> bool:
    """True if a text has no character that `check_line` refuses."""
    return text.isprintable() or _NOT_IN_A_LINE.search(text) is None


def check_line(what: str, text: str) -> None:
    """Refuse a name or title that would break a line, drive a terminal or hide what follows it."""
    if found := _NOT_IN_A_LINE.search(text):
        raise BadRequest(
            f"{what} is one line of text, and {echo(printable(text))} has the character "
            f"U+{ord(found[0]):04X} in it. Remove it."
        )


def check_model_name(text: str) -> None:
    """Refuse a model's name that has a control character, a line separator or the like anywhere in it."""
    if not text.isprintable():
        raise BadRequest(
            f"'{printable(text)}' is not a model name: it contains a line break or another control character."
        )
