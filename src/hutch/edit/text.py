"""A file's text with all that is needed to write it back.

Content is one string with the line ends that the file has, so whatever an edit
leaves alone is written as it was read. A line ends with CRLF, LF or CR and
nothing else: a form feed or U+2028 is part of its line.
"""

import io
from collections.abc import Iterable
from dataclasses import dataclass

from hutch.domain.errors import BadRequest
from hutch.domain.surrogates import replace_surrogates

BOM = "\ufeff"  # as a character, which a quote of the first line may begin with
_NAMES = {"utf-8": "UTF-8", "latin-1": "Latin-1", "utf-16-le": "UTF-16 LE", "utf-16-be": "UTF-16 BE"}


@dataclass(frozen=True, slots=True)
class Text:
    """Content with all that is needed to write it back."""

    content: str
    encoding: str = "utf-8"
    bom: bytes = b""
    errors: str = "strict"  # "surrogateescape" keeps stray bytes of a file that is UTF-8 otherwise

    @property
    def encoding_name(self) -> str:
        """The encoding as people write it."""
        return _NAMES.get(self.encoding, self.encoding)

    def encode(self, content: str) -> bytes:
        """`content` as bytes of this file."""
        return self.bom + content.encode(self.encoding, self.errors)

    def check(self, new: str) -> None:
        """Refuse text that the file's encoding cannot hold."""
        if "\0" in new:
            raise BadRequest(
                "The new text has a NUL character, which would make the file binary. Leave it out."
            )
        if new.isascii():
            return
        try:
            new.encode(self.encoding)
        except UnicodeEncodeError as error:
            character = new[error.start]
            raise BadRequest(
                f"The file is {self.encoding_name}, which cannot hold {replace_surrogates(character)!r}"
                f" (U+{ord(character):04X}). Use characters it has or an escape of the language,"
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
    """How a new line should end: as most of those `near` do, else as most of the file."""
    for some in (near, content):
        pairs = some.count("\r\n")
        counts = {"\r\n": pairs, "\n": some.count("\n") - pairs, "\r": some.count("\r") - pairs}
        first, second = sorted(counts, key=counts.__getitem__, reverse=True)[:2]
        if counts[first] > counts[second]:
            return first
    return next((end for end in map(ending, split_lines(near or content)) if end), "\n")


def with_endings(new: str, end: str) -> str:
    """`new` with its line ends, lone CRs included, made those of the file."""
    bare = new.replace("\r\n", "\n").replace("\r", "\n") if "\r" in new else new
    return bare if end == "\n" else bare.replace("\n", end)


def separate_line_ends(left: str, new: str, right: str) -> str:
    """New lines that do not make one line end of a CR and an LF that meet where they are put in."""
    if new and left.endswith("\r") and new.startswith("\n"):
        new = "\r" + new
    return new + "\n" if new.endswith("\r") and right.startswith("\n") else new


def join_lines(parts: Iterable[str]) -> str:
    """Texts and line ends, joined; a CR and an LF that are the ends of two lines do not become one end."""
    joined: list[str] = []
    before = ""
    for part in filter(None, parts):
        before = f"\r{part}" if before.endswith("\r") and part.startswith("\n") else part
        joined.append(before)
    return "".join(joined)
