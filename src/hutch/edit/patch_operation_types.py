"""The operations of a patch on files, and their hunks. Both kinds of patch are parsed into these."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

from hutch.edit.encoded_file_text import BOM, ending, split_lines, without_ending


class HunkLine(NamedTuple):
    """A line of a hunk: `sign` is a space for context, `-` for removed or `+` for added."""

    sign: str
    text: str
    end: str


@dataclass(frozen=True)
class Hunk:
    """Consecutive lines of a file, with those to remove and to add."""

    lines: tuple[tuple[str, str], ...]  # sign and text, which may end with CR
    anchors: tuple[str, ...] = ()  # lines above it, outermost first
    at_end: bool = False
    line: int | None = None  # where its first old line should be, from 1; or after which line it only adds
    open_old: bool = False  # the last old line has no line end
    open_new: bool = False
    heading: str = ""  # what follows the line numbers: a line above the hunk, or a part of one

    def without_bom(self) -> "Hunk":
        """The same hunk for a file whose byte order mark is stored apart from its text."""
        return replace(self, lines=tuple((sign, text.removeprefix(BOM)) for sign, text in self.lines))

    @cached_property
    def file_lines(self) -> tuple[HunkLine, ...]:
        """The lines as in a file: a CR inside of one ends a line."""
        last_old = max((index for index, (sign, _) in enumerate(self.lines) if sign != "+"), default=-1)
        last_new = max((index for index, (sign, _) in enumerate(self.lines) if sign != "-"), default=-1)
        hunk_lines: list[HunkLine] = []
        for index, (sign, text) in enumerate(self.lines):
            is_open = (self.open_old and index == last_old) or (self.open_new and index == last_new)
            for line in split_lines(text if is_open else text + "\n") or [""]:
                hunk_lines.append(HunkLine(sign, without_ending(line), ending(line)))
        return tuple(hunk_lines)

    @cached_property
    def old(self) -> tuple[HunkLine, ...]:
        """The lines that must be in the file."""
        return tuple(hunk_line for hunk_line in self.file_lines if hunk_line.sign != "+")

    @cached_property
    def new(self) -> tuple[HunkLine, ...]:
        """The lines in the file afterwards."""
        return tuple(hunk_line for hunk_line in self.file_lines if hunk_line.sign != "-")


@dataclass(frozen=True, slots=True)
class FileOperation:
    """The operation of a patch on one file."""

    kind: Literal["add", "update", "delete"]
    path: str
    move_to: str | None = None
    copy: bool = False  # the file stays where it was, and `move_to` is a copy
    content: str = ""  # of an added file
    hunks: tuple[Hunk, ...] = ()
    mode: int | None = None
    otherwise: str | None = None  # the other name of the file in the patch, used when `path` does not exist
