"""Searches with ripgrep inside the jail.

Pattern and files are untrusted, so the search runs in the jail with the same limits as
commands, and can open only files of the workspace (`landlock_launcher.py`): a link that
is swapped in while it runs has no effect. The first megabytes of the output are stored
and the rest is counted, so that a truncated result still has the total.
"""

import asyncio
import functools
import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from importlib import resources
from typing import Literal, TypeVar

from hutch.domain.errors import BadRequest, Denied, LimitReached, NotFound, Unavailable
from hutch.jail.interface import Finished, Jail, StreamName
from hutch.jail.launch.visible_system_files import this_system
from hutch.system.chunked_collection_operations import sort_in_chunks
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.globs import glob_pattern
from hutch.workspace.rule_based_search_filter import HiddenFiles, IsHidden, hide_secrets
from hutch.workspace.search_match_redaction import (
    AROUND_LINES,
    MAX_LINE_COLUMNS,
    MAX_READ_COLUMNS,
    Line,
    Mask,
    matches_without_secrets,
)

Item = TypeVar("Item")
GrepOutput = Literal["content", "files", "count"]

NOT_CONFINED, NOT_FOUND = 126, 127  # exit codes of `landlock_launcher.py` if it cannot start ripgrep
# Of the output; within it, results do not depend on the threads of ripgrep.
MAX_OUTPUT_BYTES = 4 * 1024 * 1024
MAX_LISTING_BYTES = 64 * 1024 * 1024  # of file names, for a glob
MAX_CONTEXT_LINES = 50
RIPGREP_OPTIONS = (
    *("--no-config", "--hidden", "--no-require-git", "--no-ignore-global", "--color=never"),
    *("--null", "--glob=!.git"),
)
BINARY = re.compile(rb"^[^\0\n]*: (?:WARNING: stopped searching )?binary file [^\0\n]*\n", re.MULTILINE)
RECORD = re.compile(rb"([^\0]+)\0(\d+)([:-])([^\n]*)\n")
MATCH = re.compile(rb"\0\d+:")
NUL = re.compile(rb"\0")
COUNT = re.compile(rb"([^\0]+)\0(\d+)\r?\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrepQuery:
    """The pattern and options of a search."""

    pattern: str
    path: str = ""
    glob: str | None = None
    ignore_case: bool = False
    multiline: bool = False
    context: int = 0
    limit: int = 200
    offset: int = 0  # number of matching lines, or files, to skip
    output: GrepOutput = "content"
    include_ignored: bool = False  # search what `.gitignore` files list, too
    timeout_s: float | None = None  # None: that of commands


@dataclass(frozen=True, slots=True)
class GrepResult:
    """One page of matches, and the total."""

    lines: list[Line] = field(default_factory=list)  # for output "content"
    counts: dict[str, int] = field(default_factory=dict)  # for output "count": matches by file
    paths: list[str] = field(default_factory=list)  # for output "files"
    total: int = 0  # matching lines, or files
    cut: bool = False
    next: int | None = None  # the offset of the next page; None if there is none
    latin1: bool = False  # found only when files are read as Latin-1
    left_out: tuple[str, ...] = ()  # rules: the files that they exclude are not shown


@dataclass(frozen=True, slots=True)
class GlobResult:
    """Files, or directories, whose path matches a pattern, newest first."""

    paths: list[str]
    total: int
    cut: bool
    next: int | None = None  # the offset of the next page


async def grep(
    jail: Jail,
    query: GrepQuery,
    *,
    ignore: Sequence[str] = (),
    hidden: IsHidden | None = None,
    mask: Mask | None = None,
) -> GrepResult:
    """Search for a regular expression in the files below a path.

    Characters outside ASCII have other bytes in files that are not UTF-8. Without a match in UTF-8, the
    search is repeated with Latin-1. With `mask`, which hides secrets, a line with a secret is no match.
    """
    hidden = hidden or (hide_secrets(mask) if mask else _hide_nothing)
    found = await _grep(jail, query, ignore, hidden, mask)
    if isinstance(hidden, HiddenFiles):
        found = replace(found, left_out=hidden.rules)
    if found.total or query.pattern.isascii():
        return found
    again = await _grep(jail, query, ignore, hidden, mask, "--encoding=latin1")
    return replace(again, latin1=True, left_out=found.left_out)


async def _grep(
    jail: Jail, query: GrepQuery, ignore: Sequence[str], hidden: IsHidden, mask: Mask | None, *more: str
) -> GrepResult:
    if query.limit < 1 or query.offset < 0 or not 0 <= query.context <= MAX_CONTEXT_LINES:
        raise BadRequest(
            "limit must be at least 1, offset at least 0, and context between 0 and "
            f"{MAX_CONTEXT_LINES} lines."
        )
    columns, context = MAX_LINE_COLUMNS, query.context
    if mask:
        columns, context = MAX_READ_COLUMNS, query.context + AROUND_LINES
    # Without look-around, a multi-line match contains all lines that it depends on.
    engine = "default" if mask and query.multiline else "auto"
    argv = ["rg", *RIPGREP_OPTIONS, *_ignored(ignore), f"--engine={engine}", "--crlf", *more]
    argv += ["--no-ignore"] if query.include_ignored else []
    argv += ["--ignore-case"] if query.ignore_case else []
    argv += ["--multiline", "--multiline-dotall"] if query.multiline else []
    argv += [f"--glob={query.glob}"] if query.glob else []
    output = "content" if mask else query.output
    match output:
        case "content":
            argv += ["--line-number", "--no-heading", "--with-filename", "--no-context-separator"]
            argv += [f"--max-columns={columns}", "--max-columns-preview", f"--context={context}"]
        case "files":
            argv += ["--files-with-matches"]
        case "count":
            argv += ["--count", "--with-filename"]
    unit = NUL if output == "files" else MATCH
    argv += [f"--regexp={query.pattern}"]
    printed = await _search(jail, argv, query.path, unit=unit, timeout_s=query.timeout_s)
    if mask:
        return await asyncio.to_thread(_without_secrets, printed, query, hidden, mask)
    match query.output:
        case "content":
            return await asyncio.to_thread(_content, printed, query, hidden)
        case "files":
            paths = await asyncio.to_thread(_visible_paths, printed.stored, hidden)
            total, (visible, next_) = len(paths) + _more(printed, hidden), _page(paths, query)
            return GrepResult(paths=visible, total=total, cut=bool(next_) or printed.cut, next=next_)
        case "count":
            counts = await asyncio.to_thread(_counts, printed.stored, hidden)
            total = sum(count for _, count in counts)
            some, next_ = _page(counts, query)
            return GrepResult(counts=dict(some), total=total, cut=bool(next_) or printed.cut, next=next_)


async def glob(
    jail: Jail,
    pattern: str,
    *,
    modified_ns: Callable[[str], int],
    path: str = "",
    limit: int = 200,
    offset: int = 0,
    directories: bool = False,
    ignore: Sequence[str] = (),
    hidden: IsHidden | None = None,
) -> GlobResult:
    """Files below a path that match `pattern`. `modified_ns` returns the time of a change.

    `directories`: instead of files, the directories that hold any, each with a slash at its end.
    """
    if limit < 1 or offset < 0:
        raise BadRequest("limit must be at least 1, and offset at least 0.")
    fits = glob_pattern(pattern.rstrip("/") if directories else pattern)
    argv = ["rg", *RIPGREP_OPTIONS, *_ignored(ignore), "--files"]
    printed = await _search(jail, argv, path, unit=NUL, max_bytes=MAX_LISTING_BYTES)
    base = to_workspace_path(jail, path)
    skip = len(base) + 1 if base else 0
    hides = hidden or _hide_nothing

    def fitting() -> tuple[list[str], int]:
        listed: Iterator[str] = (_relative(name) for name in _names(printed.stored))
        if directories:
            listed = _directories(listed, base)
        found = [name for name in listed if fits.fullmatch(name, skip) and not hides(name)]
        # A full sort would hold the interpreter lock for too long.
        newest = heapq.nsmallest(offset + limit, ((-modified_ns(name), name) for name in found))
        return [f"{name}/" if directories else name for _, name in newest[offset:]], len(found)

    paths, total = await asyncio.to_thread(fitting)  # takes long for a large tree
    next_ = offset + limit if total > offset + limit else None
    return GlobResult(paths, total, bool(next_) or printed.cut, next_)


def _directories(files: Iterator[str], base: str) -> Iterator[str]:
    """The directories above these files and below `base`, each once."""
    seen = {"", base}
    for name in files:
        while (name := name.rpartition("/")[0]) not in seen:
            seen.add(name)
            yield name


def _names(stored: bytes) -> Iterator[bytes]:
    """Split at NULs one by one: splitting at once would hold the interpreter lock for too long."""
    start = 0
    while (end := stored.find(b"\0", start)) >= 0:
        yield stored[start:end]
        start = end + 1


class _SearchOutput:
    """The output of ripgrep: its first bytes, and the number of `unit`s in the rest."""

    def __init__(self, unit: re.Pattern[bytes], max_bytes: int) -> None:
        self.more = 0
        self.cut = False
        self._unit = unit
        self._parts: list[bytes] = []
        self._remaining_bytes = max_bytes
        self._edge = b""  # the end of the last chunk: a unit may span two chunks

    def add(self, stream: StreamName, data: bytes) -> None:
        if stream != "stdout":
            return
        self._parts.append(data[: self._remaining_bytes])
        beyond = data[self._remaining_bytes :]
        self._remaining_bytes -= len(self._parts[-1])
        if beyond:
            if not self.cut:  # end the stored part with a whole record
                self.cut, stored = True, self.stored
                whole = stored.rfind(b"\0" if self._unit is NUL else b"\n") + 1
                self._parts, beyond = [stored[:whole]], stored[whole:] + beyond
            self.more += len(self._unit.findall(self._edge + beyond)) - len(self._unit.findall(self._edge))
            self._edge = (self._edge + beyond)[-24:]

    @property
    def stored(self) -> bytes:
        return b"".join(self._parts)


async def _search(
    jail: Jail,
    argv: list[str],
    path: str,
    *,
    unit: re.Pattern[bytes],
    max_bytes: int = MAX_OUTPUT_BYTES,
    timeout_s: float | None = None,
) -> _SearchOutput:
    printed = _SearchOutput(unit, max_bytes)
    # The output is processed as a stream, so the jail need not store it.
    limits = replace(jail.policy.limits, output_bytes=65536, output_file_bytes=0)
    confined = [this_system().python, "-I", "-S", "-c", _launcher_source(), jail.workspace]
    words = [*confined, *argv, "--", to_workspace_path(jail, path) or "."]
    ran = await jail.run(words, limits=limits, on_output=printed.add, timeout_s=timeout_s)
    _check(ran, path)
    return printed


@functools.cache
def _launcher_source() -> str:
    return resources.files("hutch.workspace").joinpath("landlock_launcher.py").read_text()


def _check(ran: Finished, path: str) -> None:
    if ran.timed_out:
        raise LimitReached(
            f"The search was stopped after {ran.duration_s:.0f} s. Give a narrower path, a glob or a simpler "
            f"pattern.",
            limit="jail.command_timeout_s",
        )
    if ran.limit_hit:
        raise ran.limit_hit.error()
    if ran.exit_code == NOT_FOUND:
        raise Unavailable("ripgrep is not installed. Install it: sudo apt-get install -y ripgrep")
    if ran.exit_code == NOT_CONFINED:
        raise Unavailable("The search could not be confined to the workspace, so it was not started. Retry.")
    lines = ran.stderr.decode(errors="replace").strip().splitlines()
    about = [
        line for each in lines if (line := each.removeprefix("rg: ")).startswith(f"{path.rstrip('/')}: ")
    ]
    if path and any("No such file or directory" in line for line in about):
        raise NotFound(f"'{path}' does not exist. Use glob to see what does.")
    if path and any("Permission denied" in line for line in about):
        raise Denied(f"'{path}' leads out of the workspace, or its mode forbids to read it.")
    errors = "\n".join(line for line in lines if "(os error" not in line)  # an unreadable file
    if ran.exit_code not in (0, 1) and errors:
        raise BadRequest(
            f"ripgrep cannot use this pattern: {errors}\n"
            "To find special characters literally, put a backslash before them."
        )


def _hide_nothing(path: str) -> bool:
    return False


def _visible_paths(stored: bytes, hidden: IsHidden) -> list[str]:
    names = (_relative(path) for path in _names(stored) if path)
    return sort_in_chunks([path for path in names if not hidden(path)])


def _counts(stored: bytes, hidden: IsHidden) -> list[tuple[str, int]]:
    found = (each.groups() for each in COUNT.finditer(stored))
    visible = ((_relative(path), int(count)) for path, count in found)
    return sort_in_chunks([(path, count) for path, count in visible if not hidden(path)])


def _content(printed: _SearchOutput, query: GrepQuery, hidden: IsHidden) -> GrepResult:
    visible = [line for line in _lines(printed.stored) if not hidden(line.path)]
    lines = sort_in_chunks(visible, key=lambda line: (line.path, line.number))
    end, matches = query.offset + query.limit, sum(line.matched for line in lines)
    total, next_ = matches + _more(printed, hidden), end if matches > end else None
    cut = total > end or printed.cut
    return GrepResult(lines=_select_lines(lines, query), total=total, cut=cut, next=next_)


def _more(printed: _SearchOutput, hidden: IsHidden) -> int:
    """The results beyond the stored output, unless these may be in files that rules exclude."""
    return 0 if isinstance(hidden, HiddenFiles) and hidden.rules else printed.more


def _without_secrets(printed: _SearchOutput, query: GrepQuery, hidden: IsHidden, mask: Mask) -> GrepResult:
    """The result for a read-only caller. Only the stored output is counted."""
    read = list(_lines(printed.stored))
    last = read[-1] if read and printed.cut else None
    lines = sort_in_chunks(
        [line for line in read if not hidden(line.path)], key=lambda line: (line.path, line.number)
    )
    found = list(
        matches_without_secrets(lines, mask, context=query.context, multiline=query.multiline, last=last)
    )
    counts = Counter(line.path for line in found if line.matched)  # ordered by path
    total = len(counts) if query.output == "files" else counts.total()
    units = total if query.output == "content" else len(counts)
    end = query.offset + query.limit
    cut, next_ = units > end or printed.cut, end if units > end else None
    match query.output:
        case "content":
            return GrepResult(lines=_select_lines(found, query), total=total, cut=cut, next=next_)
        case "files":
            return GrepResult(paths=_page(list(counts), query)[0], total=total, cut=cut, next=next_)
        case "count":
            some = dict(_page(list(counts.items()), query)[0])
            return GrepResult(counts=some, total=total, cut=cut, next=next_)


def _page(items: list[Item], query: GrepQuery) -> tuple[list[Item], int | None]:
    """One page, and the offset of the next page, if there is one."""
    end = query.offset + query.limit
    return items[query.offset : end], end if len(items) > end else None


def _select_lines(lines: Sequence[Line], query: GrepQuery) -> list[Line]:
    """The lines after the last match before the offset, up to the last match within the limit."""
    visible: list[Line] = []
    matches = 0
    for line in lines:
        matches += line.matched
        if matches > query.offset + query.limit:
            break
        if matches > query.offset or not query.offset:
            visible.append(line)
    return visible


def _lines(printed: bytes) -> Iterator[Line]:
    # For a matching binary file, ripgrep prints a line of another form.
    for found in RECORD.finditer(BINARY.sub(b"", printed)):  # one by one, to release the interpreter lock
        path, number, mark, text = found.groups()
        yield Line(_relative(path), int(number), text.decode(errors="replace").rstrip("\r"), mark == b":")


def to_workspace_path(jail: Jail, path: str) -> str:
    """A path relative to the workspace. Accepts the absolute path that commands in the jail use."""
    if path == jail.workspace or path.startswith(f"{jail.workspace}/"):
        path = path[len(jail.workspace) :].lstrip("/")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts:
        raise BadRequest(f"'{path}' leads out of the workspace. Give a path inside it, such as 'src'.")
    return "/".join(parts)


def _relative(path: bytes) -> str:
    return path.removeprefix(b"./").decode("utf-8", "surrogateescape")


def _ignored(patterns: Sequence[str]) -> list[str]:
    return [f"--glob=!{pattern}" for pattern in patterns if not pattern.startswith("!")]
