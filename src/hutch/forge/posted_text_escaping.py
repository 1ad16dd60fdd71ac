"""Prepares texts that Hutch posts on a forge: without mentions, and marked as its own."""

import html
import re

from hutch.domain.commit_text import strip_controls

OWN_MARKER = "<!-- hutch -->"  # in every comment by Hutch, so that it is never read as a request
MAX_CHARS = 60_000  # the longest text that a forge accepts
_MENTION = re.compile(r"@(?=[\w-])")
_HTML_COMMENT = re.compile(r"(?<=<!)(?=--)|(?<=--)(?=>)")
_ZERO_WIDTH_SPACE = "\N{ZERO WIDTH SPACE}"

# A text by a model must not mention users or close issues. The rendered Markdown counts: emphasis may
# stand between the words, and an entity may stand for a character.
MENTION = re.compile(r"(?<![A-Za-z0-9])@(?=[A-Za-z0-9])")
CLOSING = re.compile(
    r"\b(clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing))((?:[^\w\u2060]|_){1,20}?)"
    r"(?=(?:[\w.-]+/[\w.-]+)?#\d|GH-\d|https?://)",
    re.IGNORECASE,
)
ENTITY = re.compile(r"&(?:#[0-9]{1,8}|#[xX][0-9a-fA-F]{1,8}|commat|num);")
WORD_JOINER = "\u2060"  # has no width, and is not part of a name


def escape_mentions(text: str) -> str:
    """Untrusted text without mentions and hidden comments."""
    return _MENTION.sub(f"@{_ZERO_WIDTH_SPACE}", escape_html_comments(text))[:MAX_CHARS]


def escape_html_comments(text: str) -> str:
    """A user's text, which may mention others, without hidden comments such as Hutch's marker."""
    return _HTML_COMMENT.sub(_ZERO_WIDTH_SPACE, strip_controls(text))[:MAX_CHARS]


def has_own_marker(body: str) -> bool:
    """True if Hutch posted a comment."""
    return OWN_MARKER in body


def escape_references(text: str) -> str:
    """A text that mentions no user and closes no issue."""
    text = ENTITY.sub(_unescape, text).replace("<!--", f"<!{WORD_JOINER}--")
    return CLOSING.sub(rf"\1{WORD_JOINER}\2{WORD_JOINER}", MENTION.sub(f"@{WORD_JOINER}", text))


def _unescape(entity: re.Match[str]) -> str:
    """The character of an entity, if it is one with an effect."""
    character = html.unescape(entity[0])
    return character if character in ("@", "#") else entity[0]
