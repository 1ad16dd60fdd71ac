"""A file's text with its encoding, to write it back.

The content is one string with the line ends of the file, so unchanged parts are
written as they were read. A line ends with CRLF, LF or CR and nothing else: a form
feed or U+2028 is part of its line.
"""

import io
from collections.abc import Iterable

from hutch.domain.errors import BadRequest
from hutch.domain.lone_surrogate_replacement import replace_surrogates
from hutch.system.lazy_dataclass import dataclass

BOM = "\ufeff"  # as a character: a quote of the first line may begin with it
_NAMES = {"utf-8": "UTF-8", "latin-1": "Latin-1", "utf-16-le": "UTF-16 LE", "utf-16-be": "UTF-16 BE"}


@dataclass(frozen=True, slots=True)
class Text:
    """Content, encoding and byte order mark of a file."""

    content: str
    encoding: str = "utf-8"
    bom: bytes = b""
    errors: str = "strict"  # "surrogateescape" preserves invalid bytes of a file that is UTF-8 otherwise

    @property
    def encoding_name(self) -> str:
        """The encoding as users write it."""
        return _NAMES.get(self.encoding, self.encoding)

    def encode(self, content: str) -> bytes:
        """`content` as bytes of this file."""
        return self.bom + content.encode(self.encoding, self.errors)

    def check(self, new: str) -> None:
        """Refuse text that the file's encoding cannot represent."""
        if "\0" in new:
            raise BadRequest("The new text has a NUL character, which would make the file binary. Remove it.")
        if new.isascii():
            return
        try:
            new.encode(self.encoding)
        except UnicodeEncodeError as error:
            character = new[error.start]
            raise BadRequest(
                f"The file is {self.encoding_name}, which cannot represent {replace_surrogates(character)!r}"
                f" (U+{ord(character):04X}). Use characters that it has, or an escape of the language,"
                " or convert the file to UTF-8 first."
            ) from None


def split_lines(content: str) -> list[str]:
    """The lines of `content`, each with its end."""
    return list(io.StringIO(content, newline=""))


def ending(line: str) -> str:
    """How a line ends: CRLF, LF, CR or not at all."""
    if line.endswith("\n"):
        return "\r\n" if line.endswith("\r\n") else "\n"
    return "\r" if line.endswith("\r") else ""


def without_ending(line: str) -> str:
    """A line without its end."""
    return line[: len(line) - len(ending(line))]


def common_ending(content: str, near: str = "") -> str:
    """The line end for a new line: the most common one `near`, else in the file."""
    for some in (near, content):
        pairs = some.count("\r\n")
        counts = {"\r\n": pairs, "\n": some.count("\n") - pairs, "\r": some.count("\r") - pairs}
        first, second = sorted(counts, key=counts.__getitem__, reverse=True)[:2]
        if counts[first] > counts[second]:
            return first
    return next((end for end in map(ending, split_lines(near or content)) if end), "\n")


def with_endings(new: str, end: str) -> str:
    """Convert all line ends of `new`, lone CRs included, to `end`."""
    bare = new.replace("\r\n", "\n").replace("\r", "\n") if "\r" in new else new
    return bare if end == "\n" else bare.replace("\n", end)


def separate_line_ends(left: str, new: str, right: str) -> str:
    """Prevent that a CR and an LF at the borders of inserted text become one line end."""
    if new and left.endswith("\r") and new.startswith("\n"):
        new = "\r" + new
    return new + "\n" if new.endswith("\r") and right.startswith("\n") else new


def join_lines(parts: Iterable[str]) -> str:
    """Join texts and line ends; a CR and an LF that end two lines do not become one line end."""
    joined: list[str] = []
    before = ""
    for part in filter(None, parts):
        before = f"\r{part}" if before.endswith("\r") and part.startswith("\n") else part
        joined.append(before)
    return "".join(joined)
