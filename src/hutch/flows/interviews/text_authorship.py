"""The authors of the parts of a text: its versions in, characters by author out.

Each version is compared with the one before; what it adds is its author's. Text that an author moves counts
as theirs, because a move looks like a deletion and an insertion.
"""

from collections import Counter
from collections.abc import Iterable

from hutch.sessions.collaborative_editing.text_difference import find_replacements
from hutch.system.lazy_dataclass import dataclass

MAX_AUTHORS = 255  # of one text; later ones are counted together with the last


@dataclass(frozen=True, slots=True)
class TextVersion:
    """The content of a file after one change, and who made the change."""

    author: str
    text: str


@dataclass(frozen=True, slots=True)
class AuthoredPart:
    """Adjacent characters of one author."""

    author: str
    text: str


def authored_parts(versions: Iterable[TextVersion]) -> list[AuthoredPart]:
    """The last version in parts by author, in order."""
    text, owners, authors = "", bytearray(), list[str]()
    for version in versions:
        if version.author not in authors and len(authors) < MAX_AUTHORS:
            authors.append(version.author)
        number = authors.index(version.author) if version.author in authors else MAX_AUTHORS - 1
        for start, end, added in reversed(find_replacements(text, version.text)):
            owners[start:end] = bytes([number]) * len(added.encode())
        text = version.text
    return _parts(text, owners, authors)


def _parts(text: str, owners: bytearray, authors: list[str]) -> list[AuthoredPart]:
    found: list[AuthoredPart] = []
    content, start = text.encode(), 0
    for end in range(1, len(owners) + 1):
        if end == len(owners) or owners[end] != owners[start]:
            found.append(AuthoredPart(authors[owners[start]], content[start:end].decode()))
            start = end
    return found


def chars_by_author(parts: Iterable[AuthoredPart]) -> dict[str, int]:
    """How many characters of the text each author wrote, without white space."""
    counts: Counter[str] = Counter()
    for part in parts:
        counts[part.author] += sum(not character.isspace() for character in part.text)
    return dict(counts)
