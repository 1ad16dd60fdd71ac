"""A patch as git prints it: which files it touches, and which of their lines it shows.

It may be hostile. A line of content is never read as a header: a hunk declares how many
lines it has, and that many are content.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Literal

from hutch.system.lazy_dataclass import dataclass

Side = Literal["old", "new"]

HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_ESCAPE = re.compile(r"\\([0-7]{3}|.)")
_ESCAPED_CHARS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


@dataclass(slots=True)
class FilePatch:
    """The changes of a patch to one file."""

    path: str  # its new path; the old one when it is deleted
    old_path: str = ""  # empty when it is new
    shown: dict[Side, list[range]] = field(default_factory=lambda: {"old": [], "new": []})
    deleted: bool = False

    def shows(self, side: Side, line: int) -> bool:
        return any(line in lines for lines in self.shown[side])


@dataclass(frozen=True, slots=True)
class Patch:
    """The files of a patch by path."""

    files: Mapping[str, FilePatch]

    def touches(self, path: str) -> bool:
        return path in self.files or any(each.old_path == path for each in self.files.values())

    def shows(self, path: str, side: Side, line: int) -> bool:
        """True if the patch contains a line."""
        found = self.files.get(path)
        return found is not None and found.shows(side, line)


def parse_patch(patch: bytes) -> Patch:
    """Parse a patch; lines that are not valid are skipped."""
    files: dict[str, FilePatch] = {}
    lines = iter(patch.decode("utf-8", "surrogateescape").split("\n"))
    found: FilePatch | None = None
    for line in lines:
        if line.startswith("diff --git "):
            found = FilePatch(*_git_path(line[11:]))
            files[found.path] = found
        elif found is None:
            continue
        elif line.startswith("deleted file"):
            found.deleted = True
        elif line.startswith("new file"):
            found.old_path = ""
        elif line.startswith(("rename to ", "copy to ")):
            _rename(files, found, unquote(line.partition(" to ")[2]))
        elif line.startswith(("rename from ", "copy from ")):
            found.old_path = unquote(line.partition(" from ")[2])
        elif line.startswith("--- "):
            found.old_path = _header_path(line)
        elif line.startswith("+++ "):
            _rename(files, found, _header_path(line) or found.old_path)
        elif at := HUNK.match(line):
            old = range(int(at[1]), int(at[1]) + int(at[2] or 1))
            new = range(int(at[3]), int(at[3]) + int(at[4] or 1))
            found.shown["old"].append(old)
            found.shown["new"].append(new)
            _skip_content(lines, len(old), len(new))
    return Patch(files)


def _rename(files: dict[str, FilePatch], found: FilePatch, path: str) -> None:
    if path and path != found.path:
        files.pop(found.path, None)
        found.path = path
        files[path] = found


def _skip_content(lines: Iterator[str], old: int, new: int) -> None:
    """Skip the content of a hunk."""
    while old > 0 or new > 0:
        line = next(lines, None)
        if line is None:
            return
        match line[:1]:
            case "-":
                old -= 1
            case "+":
                new -= 1
            case "\\":
                pass
            case _:
                old, new = old - 1, new - 1


def _header_path(line: str) -> str:
    """The path in a header line; empty for /dev/null."""
    name = unquote(line[4:].removesuffix("\t") if not line[4:].startswith('"') else line[4:])
    return "" if name == "/dev/null" else name.partition("/")[2]


def _git_path(rest: str) -> tuple[str, str]:
    """The two paths of `diff --git a/… b/…`, which are the same unless a later line says otherwise."""
    if rest.startswith('"'):
        name = unquote(rest.partition('" "')[0].rstrip('"') + '"').partition("/")[2]
        return name, name
    half = (len(rest) - 1) // 2
    name = rest[:half].partition("/")[2]
    return name, name


def unquote(text: str) -> str:
    """A path without the quotes that git puts around one with special characters, in octal."""
    if not (text.startswith('"') and text.endswith('"') and len(text) > 1):
        return text
    data = bytearray()
    position, inner = 0, text[1:-1]
    for escape in _ESCAPE.finditer(inner):
        data += inner[position : escape.start()].encode("utf-8", "surrogateescape")
        code = escape[1]
        data += bytes([int(code, 8) & 0xFF]) if len(code) == 3 else _ESCAPED_CHARS.get(code, code).encode()
        position = escape.end()
    data += inner[position:].encode("utf-8", "surrogateescape")
    return data.decode("utf-8", "surrogateescape")
