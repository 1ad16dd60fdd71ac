"""Texts that Hutch writes on a forge: nobody is called by them, and Hutch knows them as its own."""

import html
import re

from hutch.domain.commit_text import strip_controls

OWN_MARKER = "<!-- hutch -->"  # in every comment of ours, which is never taken for a wish
MAX_CHARS = 60_000  # of a text that a forge takes
_MENTION = re.compile(r"@(?=[\w-])")
_HTML_COMMENT = re.compile(r"(?<=<!)(?=--)|(?<=--)(?=>)")
_ZERO_WIDTH_SPACE = "\N{ZERO WIDTH SPACE}"

# A model's text shall call nobody, and close no issue. What Markdown makes of it counts: emphasis may stand
# in between, and an entity for a letter.
MENTION = re.compile(r"(?<![A-Za-z0-9])@(?=[A-Za-z0-9])")
CLOSING = re.compile(
    r"\b(clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing))((?:[^\w\u2060]|_){1,20}?)"
    r"(?=(?:[\w.-]+/[\w.-]+)?#\d|GH-\d|https?://)",
    re.IGNORECASE,
)
ENTITY = re.compile(r"&(?:#[0-9]{1,8}|#[xX][0-9a-fA-F]{1,8}|commat|num);")
WORD_JOINER = "\u2060"  # takes no room, and is no letter of a name


def escape_mentions(text: str) -> str:
    """A text of a model or a stranger that calls nobody and hides nothing."""
    return _MENTION.sub(f"@{_ZERO_WIDTH_SPACE}", escape_html_comments(text))[:MAX_CHARS]


def escape_html_comments(text: str) -> str:
    """A text of a person's, which may call others and hides nothing, such as a mark of ours."""
    return _HTML_COMMENT.sub(_ZERO_WIDTH_SPACE, strip_controls(text))[:MAX_CHARS]


def has_own_marker(body: str) -> bool:
    """Whether a comment is one of ours."""
    return OWN_MARKER in body


def escape_references(text: str) -> str:
    """A text that names nobody in a way that calls them, and nothing in a way that closes it."""
    text = ENTITY.sub(_unescape, text).replace("<!--", f"<!{WORD_JOINER}--")
    return CLOSING.sub(rf"\1{WORD_JOINER}\2{WORD_JOINER}", MENTION.sub(f"@{WORD_JOINER}", text))


def _unescape(entity: re.Match[str]) -> str:
    """The letter that an entity stands for, where it is one that does something."""
    letter = html.unescape(entity[0])
    return letter if letter in ("@", "#") else entity[0]
