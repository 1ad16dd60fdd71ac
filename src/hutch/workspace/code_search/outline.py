"""The symbols of a file, or those of the files in a directory, as few characters as fit.

A directory is shown with as much detail as the limit allows: some names of each file,
fewer names, only files, or only directories with numbers of files.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from hutch.domain.errors import NotFound
from hutch.store.code_index_database import CodeIndexTables
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.code_search.symbols_and_references import Symbol

NAMES_PER_FILE = (12, 6, 3, 1, 0)
MAX_FILE_SYMBOLS = 400
_MINOR = ("variable", "constant")


@dataclass(frozen=True, slots=True)
class FileOutline:
    """A file and its symbols."""

    path: str
    symbols: tuple[Symbol, ...]


def find_outlines(tables: CodeIndexTables, below: str, is_hidden: Callable[[str], bool]) -> list[FileOutline]:
    """The indexed files at or below a path."""
    found = []
    for raw, listed in tables.outline():
        path = os.fsdecode(raw)
        if (not below or path == below or path.startswith(f"{below}/")) and not is_hidden(path):
            symbols = (Symbol(kind, name, first, last) for kind, name, first, last in json.loads(listed))
            found.append(FileOutline(path, tuple(symbols)))
    if not found:
        raise NotFound(f"'{below}' has no indexed file.")
    return found


def render_outlines(outlines: Sequence[FileOutline], below: str, max_chars: int) -> str:
    """The outlines as text of at most about `max_chars` characters."""
    if len(outlines) == 1 and outlines[0].path == below:
        return "\n".join(_file_lines(outlines[0].symbols)) or "(no symbols)"
    for names in NAMES_PER_FILE:
        text = "\n".join(_line(each, names) for each in outlines)
        if len(text) <= max_chars:
            return text
    for depth in (4, 3, 2, 1):
        text = "\n".join(_directory_lines(outlines, depth + below.count("/") + bool(below)))
        if len(text) <= max_chars:
            break
    return text[:max_chars]


def _file_lines(symbols: Sequence[Symbol]) -> Iterator[str]:
    """One line for each symbol, indented below those around it."""
    around: list[Symbol] = []
    for symbol in symbols[:MAX_FILE_SYMBOLS]:
        while around and around[-1].last_line < symbol.last_line:
            around.pop()
        lines = f"{symbol.first_line}-{symbol.last_line}"
        yield f"{lines:>11} {'  ' * min(len(around), 8)}{symbol.kind} {symbol.name}"
        if symbol.kind != "heading":
            around.append(symbol)
    if len(symbols) > MAX_FILE_SYMBOLS:
        yield f"({len(symbols) - MAX_FILE_SYMBOLS} more)"


def _line(outline: FileOutline, names: int) -> str:
    """A file and the names that it defines; variables and nested ones last."""
    end = 0
    outer: list[str] = []
    inner: list[str] = []
    for symbol in outline.symbols:
        is_outer = symbol.last_line > end and symbol.kind not in _MINOR
        (outer if is_outer else inner).append(symbol.name)
        end = max(end, symbol.last_line)
    shown = list(dict.fromkeys([*outer, *inner]))
    more = f", … ({len(shown) - names} more)" if len(shown) > names > 0 else ""
    return f"{outline.path}: {', '.join(shown[:names])}{more}" if names and shown else outline.path


def _directory_lines(outlines: Sequence[FileOutline], depth: int) -> Iterator[str]:
    counts = Counter("/".join(each.path.split("/")[:-1][:depth]) for each in outlines)
    for directory, number in sorted(counts.items()):
        yield f"{directory or '.'}/ ({number} file{'s' if number != 1 else ''})"
