"""The patch envelope that models write: `*** Begin Patch` to `*** End Patch`.

Parsing is lenient where the meaning is clear (padding, a heredoc or a code fence
around it, an empty context line without its space), and strict where a guess
could lose lines: a patch without its last line was probably cut off.
"""

import re
from collections.abc import Iterator
from typing import NoReturn

from hutch.domain.errors import BadRequest
from hutch.edit.patch_operation_types import FileOperation, Hunk

BEGIN = "*** Begin Patch"
_END = "*** End Patch"
_END_OF_FILE = "*** End of File"
_HEADER = re.compile(r"\*\*\* (Add|Update|Delete) File:[ \t]*(.*)")
_MOVE = re.compile(r"\*\*\* (?:Move|Rename)(?: File)? to:[ \t]*(.*)", re.IGNORECASE)
_HEREDOC = re.compile(
    r"(?:(?:cat|apply_patch)[ \t]+)?<<-?[ \t]*(?P<quote>['\"]?)(?P<word>\w+)(?P=quote)[ \t]*"
)
_RANGE = re.compile(r"-(\d{1,9})(?:,\d{1,9})? \+\d{1,9}(?:,\d{1,9})?[ \t]*@@[ \t]?(.*)")
_HEADERS = "'*** Add File: path', '*** Update File: path' or '*** Delete File: path'"


def strip_wrapper(patch: str) -> list[str]:
    """The lines of a patch without a code fence or heredoc around it."""
    lines = patch.split("\n")
    if lines[0].endswith("\r") or (
        len(lines) > 1 and lines[1].startswith("*** ") and lines[1].endswith("\r")
    ):
        lines = patch.replace("\r\n", "\n").split("\n")  # a program converted it to CRLF
    start, end = 0, len(lines)
    while True:
        while start < end and not lines[start].strip():
            start += 1
        while end > start and lines[end - 1] in {"", "\r"}:  # a space may be the context of a diff
            end -= 1
        if end - start < 2:
            break
        first, last = lines[start].strip(), lines[end - 1].strip()
        heredoc = _HEREDOC.fullmatch(first)
        if (heredoc and last == heredoc["word"]) or (first.startswith("```") and last == "```"):
            start, end = start + 1, end - 1
        else:
            break
    return lines[start:end]


def parse_envelope(lines: list[str]) -> list[FileOperation]:
    """The operations of an envelope, given as its lines; BadRequest names the line that is wrong."""
    if not lines or lines[0].strip() != BEGIN:
        raise BadRequest(f"The first line of a patch must be '{BEGIN}', and it is {_quote(lines[:1])}.")
    while not lines[-1].strip():
        lines = lines[:-1]
    if lines[-1].strip() != _END:
        raise BadRequest(
            f"The last line of a patch must be '{_END}', and it is {_quote(lines[-1:])}."
            " If the patch was cut off, send it again in smaller parts."
        )
    operations = list(_Reader(lines).operations())
    if not operations:
        raise BadRequest(
            f"The patch is empty: there is nothing between '{BEGIN}' and '{_END}'. Use {_HEADERS}."
        )
    return operations


def _quote(lines: list[str]) -> str:
    return f"{lines[0].strip()[:80]!r}" if lines else "missing"


class _Reader:
    """Reads the lines once."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 1
        self._end = len(lines) - 1

    def operations(self) -> Iterator[FileOperation]:
        while self._at < self._end:
            line = self._lines[self._at].strip()
            if not line:
                self._at += 1
                continue
            header = _HEADER.fullmatch(line)
            if not header:
                self._refuse(f"is not a header. A file begins with {_HEADERS}")
            kind, path = header[1].lower(), header[2].strip()
            if not path:
                self._refuse("names no file")
            self._at += 1
            if kind == "add":
                yield FileOperation("add", path, content=self._added(path))
            elif kind == "delete":
                while self._at < self._end and self._lines[self._at].startswith("-"):
                    self._at += 1  # the content of the file; not needed
                yield FileOperation("delete", path)
            else:
                yield self._updated(path)

    def _added(self, path: str) -> str:
        content: list[str] = []
        blank = 0  # lines without a sign: part of the file if more of it follows
        while self._at < self._end and not self._lines[self._at].startswith("***"):
            line = self._lines[self._at]
            if line.startswith("+"):
                content += ["\n"] * blank
                content.append(line[1:] + "\n")
                blank = 0
            elif not line.strip():
                blank += 1
            elif _HEADER.fullmatch(line.strip()):
                break
            else:
                self._refuse(f"is in the added file '{path}', where every line must begin with '+'")
            self._at += 1
        return "".join(content)

    def _updated(self, path: str) -> FileOperation:
        move_to: str | None = None
        if self._at < self._end and (move := _MOVE.fullmatch(self._lines[self._at].strip())):
            move_to = move[1].strip() or self._refuse("names no file to move to")
            self._at += 1
        hunks = list(self._hunks())
        if not hunks and move_to is None:
            raise BadRequest(
                f"'*** Update File: {path}' has no hunk. Give lines that begin with ' ', '-' or '+'."
            )
        return FileOperation("update", path, move_to=move_to, hunks=tuple(hunks))

    def _hunks(self) -> Iterator[Hunk]:
        while self._at < self._end and not self._lines[self._at].startswith("***"):
            if not self._lines[self._at].strip() and not self._is_followed():
                self._at += 1
                continue
            anchors: list[str] = []
            number: int | None = None
            heading = ""
            first = self._at
            while self._at < self._end and self._lines[self._at].startswith("@@"):
                anchor = self._lines[self._at][2:]
                if ranges := _RANGE.fullmatch(anchor.strip()):
                    number, heading, anchor = int(ranges[1]), ranges[2], ""
                if anchor.strip():
                    anchors.append(anchor.removeprefix(" "))
                self._at += 1
            lines, at_end = self._hunk_lines()
            if not lines:
                self._at = min(first, self._end)
                self._refuse("begins a hunk without lines. Give lines that begin with ' ', '-' or '+'")
            yield Hunk(tuple(lines), tuple(anchors), at_end, number, heading=heading)

    def _hunk_lines(self) -> tuple[list[tuple[str, str]], bool]:
        lines: list[tuple[str, str]] = []
        bare = 0  # empty lines without a sign at the end are not context
        while self._at < self._end:
            line = self._lines[self._at]
            if line.startswith("***"):
                if line.strip() != _END_OF_FILE:
                    break
                self._at += 1
                return lines[: len(lines) - bare], True
            if line.startswith("@@"):
                break
            self._at += 1
            sign, text = (line[0], line[1:]) if line[:1] in {" ", "-", "+"} else (" ", line)
            bare = 0 if line else bare + 1
            lines.append((sign, text))
        return lines[: len(lines) - bare], False

    def _is_followed(self) -> bool:
        """True if lines of a hunk follow the empty ones here."""
        at = self._at
        while at < self._end and not self._lines[at].strip():
            at += 1
        return at < self._end and not self._lines[at].startswith(("***", "@@"))

    def _refuse(self, why: str) -> NoReturn:
        raise BadRequest(
            f"Line {self._at + 1} of the patch, {_quote(self._lines[self._at : self._at + 1])}, {why}."
        )
