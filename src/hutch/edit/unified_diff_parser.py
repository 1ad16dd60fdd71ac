"""Parses unified diffs, as git and diff write them and as models imitate them.

Line counts are used when they add up and ignored when they do not. The position of a
hunk is determined later, by its lines.
"""

import re
from collections.abc import Iterator
from dataclasses import field

from hutch.domain.errors import BadRequest
from hutch.domain.git_patch import HUNK, unquote
from hutch.edit.patch_operation_types import FileOperation, Hunk
from hutch.system.lazy_dataclass import dataclass

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_NO_NEWLINE = "\\ "
_NONE = "/dev/null"
_MAX_HEADER_CHARS = 4_096  # characters of a header


def is_unified(lines: list[str]) -> bool:
    """True if this looks like a unified diff."""
    return any(
        line.startswith("diff --git ")
        or (line.startswith("--- ") and number + 1 < len(lines) and lines[number + 1].startswith("+++ "))
        for number, line in enumerate(lines)
    )


def parse_unified_diff(lines: list[str]) -> list[FileOperation]:
    """The operations of a diff, given as its lines; BadRequest names the line that is wrong."""
    operations = [_operation(section) for section in _Reader(lines).sections()]
    if not operations:
        raise BadRequest("The diff changes no file. A file begins with '--- a/path' and '+++ b/path'.")
    return operations


@dataclass(slots=True)
class _Section:
    """The part of the diff for one file."""

    line: int
    old: str | None = None  # as in the `---` line, with its prefix
    new: str | None = None
    git: tuple[str, str] | None = None
    renamed: tuple[str | None, str | None] = (None, None)
    copied: bool = False
    created: bool = False
    deleted: bool = False
    mode: int | None = None
    hunks: list[Hunk] = field(default_factory=list)


def _operation(section: _Section) -> FileOperation:
    old, new = _paths(section)
    if section.renamed != (None, None):
        old, new = section.renamed[0] or old, section.renamed[1] or new
        if not old or not new or _NONE in (old, new):
            raise BadRequest(f"Line {section.line} of the diff: a rename without both names.")
        move_to = new if new != old else None
        return FileOperation(
            "update", old, move_to, section.copied, hunks=tuple(section.hunks), mode=section.mode
        )
    if not old or not new or old == new == _NONE:
        raise BadRequest(f"Line {section.line} of the diff names no file. Use '--- a/path' and '+++ b/path'.")
    if section.created or old == _NONE:
        return FileOperation("add", new, content=_content(section), mode=section.mode)
    if section.deleted or new == _NONE:
        return FileOperation("delete", old)
    if not section.hunks and section.mode is None:
        raise BadRequest(f"The diff of '{new}' has no hunk. A hunk begins with '@@ -1,3 +1,4 @@'.")
    otherwise = old if old != new else None
    return FileOperation("update", new, hunks=tuple(section.hunks), mode=section.mode, otherwise=otherwise)


def _paths(section: _Section) -> tuple[str | None, str | None]:
    """Both paths, without git's prefixes."""
    old, new = section.old, section.new
    if section.git and (old is None or new is None):
        old, new = section.git
    names = [name for name in (old, new) if name and name != _NONE]
    prefixed = all(re.match(r"[a-z]/.", name) for name in names)
    if prefixed and (section.git or len({name[0] for name in names}) == 2 or len(names) == 1):
        old, new = (name if name is None or name == _NONE else name[2:] for name in (old, new))
    return old, new


def _content(section: _Section) -> str:
    """The text of a new file."""
    hunk_lines = [hunk_line for hunk in section.hunks for hunk_line in hunk.file_lines]
    if any(hunk_line.sign != "+" for hunk_line in hunk_lines):
        raise BadRequest(
            f"Line {section.line} of the diff creates a file, so its lines must all begin with '+'."
        )
    return "".join(hunk_line.text + hunk_line.end for hunk_line in hunk_lines)


def _path(text: str) -> str:
    return unquote(text.strip())


class _Reader:
    """Reads the lines once."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    def sections(self) -> Iterator[_Section]:
        section: _Section | None = None
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith("@@"):
                if section is None:
                    raise BadRequest(
                        f"Line {self._at + 1} of the diff begins a hunk, but no file is named."
                        " Put '--- a/path' and '+++ b/path' above it."
                    )
                section.hunks.append(self._hunk())
                continue
            follows = self._lines[self._at + 1] if self._at + 1 < len(self._lines) else ""
            is_git = line.startswith("diff --git ")
            is_plain = line.startswith("--- ") and follows.startswith("+++ ")
            if is_git or (is_plain and (section is None or section.old is not None)):
                if section:
                    yield section
                section = _Section(self._at + 1)
            if section:
                self._header(section, line, follows, is_plain)
            self._at += 2 if is_plain else 1
        if section:
            yield section

    def _header(self, section: _Section, line: str, follows: str, is_plain: bool) -> None:
        word, _, rest = line[:_MAX_HEADER_CHARS].partition(" ")
        if is_plain:
            section.old, section.new = (
                _path(text[4:].split("\t")[0].removesuffix("\r")) for text in (line, follows)
            )
        elif line.startswith("diff --git "):
            section.git = _git_names(line[:_MAX_HEADER_CHARS])
        elif line.startswith(("rename from ", "copy from ")):
            section.renamed = (_path(rest.partition(" ")[2]), section.renamed[1])
            section.copied = word == "copy"
        elif line.startswith(("rename to ", "copy to ")):
            section.renamed = (section.renamed[0], _path(rest.partition(" ")[2]))
        elif line.startswith(("new file mode ", "new mode ")):
            section.mode = self._mode(line)
            section.created |= line.startswith("new file")
        elif line.startswith("deleted file mode "):
            section.deleted = True
        elif line.startswith("GIT binary patch") or (
            line.startswith("Binary files ") and line.endswith("differ")
        ):
            path = _paths(section)[1] or "a file"
            raise BadRequest(
                f"Line {self._at + 1} of the diff changes '{path}', which is binary."
                " Omit it from the diff, and write the whole file instead."
            )

    def _mode(self, line: str) -> int:
        digits = line.split()[-1]
        if digits not in {"100644", "100755"}:
            raise BadRequest(
                f"Line {self._at + 1} of the diff gives a file the mode {digits[:20]}; only 100644 and 100755"
                " can be given, so links and submodules cannot be made by a patch."
            )
        return int(digits[-3:], 8)

    def _hunk(self) -> Hunk:
        start = self._at
        header = self._lines[start]
        ranges = HUNK.match(header)
        anchor = () if ranges or not header.strip("@ ") else (header.strip("@").strip(),)
        if header.startswith("@@@"):
            raise BadRequest(f"Line {start + 1} of the diff is of a merge. Give an ordinary diff with '@@'.")
        self._at += 1
        lines = self._counted(int(ranges[2] or 1), int(ranges[4] or 1)) if ranges else None
        if lines is None:
            self._at = start + 1
            lines = self._signed()
        if not lines:
            raise BadRequest(f"Line {start + 1} of the diff begins a hunk without lines.")
        old = [index for index, (sign, _) in enumerate(lines) if sign in " -"]
        new = [index for index, (sign, _) in enumerate(lines) if sign in " +"]
        marks = {index - 1 for index, (sign, _) in enumerate(lines) if sign == "\\"}
        return Hunk(
            tuple(line for line in lines if line[0] != "\\"),
            anchor,
            line=int(ranges[1]) if ranges else None,
            open_old=bool(old) and old[-1] in marks,
            open_new=bool(new) and new[-1] in marks,
            heading=header[ranges.end() :].strip() if ranges else "",
        )

    def _counted(self, old: int, new: int) -> list[tuple[str, str]] | None:
        """As many lines as the header declares; None when the numbers are inconsistent."""
        lines: list[tuple[str, str]] = []
        while self._at < len(self._lines) and (old or new or self._lines[self._at].startswith(_NO_NEWLINE)):
            line = self._lines[self._at]
            sign = line[:1] if line else " "
            if sign not in {" ", "-", "+", "\\"}:
                return None
            old -= sign in " -"
            new -= sign in " +"
            if old < 0 or new < 0:
                return None
            lines.append((sign, line[1:]))
            self._at += 1
        follows = self._lines[self._at] if self._at < len(self._lines) else ""
        over = follows[:1] in {" ", "-", "+"} and not follows.startswith(("--- ", "-- "))
        return None if old or new or over else lines

    def _signed(self) -> list[tuple[str, str]]:
        """All lines up to the next hunk or file."""
        lines: list[tuple[str, str]] = []
        bare = 0  # empty lines at the end are not context
        while self._at < len(self._lines):
            line = self._lines[self._at]
            follows = self._lines[self._at + 1] if self._at + 1 < len(self._lines) else ""
            if line.startswith(("@@", "diff --git ", "Index: ")):
                break
            if line.startswith("--- ") and follows.startswith("+++ "):
                break
            sign, text = (line[0], line[1:]) if line[:1] in {" ", "-", "+", "\\"} else (" ", line)
            bare = 0 if line else bare + 1
            lines.append((sign, text))
            self._at += 1
        return lines[: len(lines) - bare]


def _git_names(line: str) -> tuple[str, str] | None:
    """Both names of a `diff --git` line; without quotes, both must be the same."""
    rest = line.removeprefix("diff --git ").rstrip("\r")
    if quoted := _QUOTED.match(rest):
        return _path(quoted[0]), _path(rest[quoted.end() :])
    if rest.endswith('"') and ' "' in rest:
        first, _, second = rest.partition(' "')
        return first, _path(f'"{second}')
    half = len(rest) // 2
    if len(rest) % 2 and rest[half] == " " and rest[2:half] == rest[half + 3 :]:
        return rest[:half], rest[half + 1 :]
    names = rest.split(" ")
    return (names[0], names[1]) if len(names) == 2 else None
