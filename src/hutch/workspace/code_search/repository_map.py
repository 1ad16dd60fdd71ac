"""A map of a repository: the files that match a task, then the most referenced files, with their definitions.

It has a bounded number of characters, however large the repository is.
"""

import json
import math
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from hutch.store.code_index_database import CodeIndexTables
from hutch.workspace.code_search.ranked_matches import CodeMatch

MAX_FILES = 300  # that are ranked by their use
NAMES_PER_FILE = 4
MAX_DEFINERS = 3  # of a name: one that more files define says nothing about where it is
MIN_NAME_CHARS = 4
MAX_LINE_CHARS = 160
MIN_FILES = 30  # with symbols: a smaller repository is seen at a glance
MATCHES_SHARE = 0.5  # of the characters, for files that match the task


class MappedFile(NamedTuple):
    """A file, and those of its symbols that other files use most."""

    path: str
    names: tuple[str, ...]


def rank_files(tables: CodeIndexTables) -> list[MappedFile]:
    """The files whose symbols other files use, the most used first; computed once for a tree."""
    stored = tables.map
    if stored:
        return [MappedFile(path, tuple(names)) for path, names in json.loads(stored)]
    ranked = _rank(tables)
    tables.map = json.dumps(ranked)
    return ranked


def _rank(tables: CodeIndexTables) -> list[MappedFile]:
    definers: defaultdict[str, list[bytes]] = defaultdict(list)
    users: Counter[str] = Counter()
    used_at_home: Counter[tuple[bytes, str]] = Counter()
    count = 0
    for path, symbols, uses in tables.symbols_and_uses():
        defined = {str(name) for kind, name, _, _ in json.loads(symbols) if kind != "heading"}
        count += bool(defined)
        for name in defined:
            if len(name) >= MIN_NAME_CHARS:
                definers[name].append(path)
        for name in json.loads(uses):
            if name in defined:
                used_at_home[path, name] += 1
            users[name] += 1
    if count < MIN_FILES:
        return []
    scores: defaultdict[bytes, float] = defaultdict(float)
    names: defaultdict[bytes, list[tuple[float, str]]] = defaultdict(list)
    for name, paths in definers.items():
        for path in paths if len(paths) <= MAX_DEFINERS else ():
            others = users[name] - used_at_home[path, name]
            if others > 0:
                scores[path] += (score := math.sqrt(others) / len(paths))
                names[path].append((score, name))
    best = sorted(scores, key=lambda path: (-scores[path], path))[:MAX_FILES]
    return [
        MappedFile(os.fsdecode(path), tuple(name for _, name in _best_names(names[path]))) for path in best
    ]


def _best_names(names: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    return sorted(names, key=lambda each: (-each[0], each[1]))[:NAMES_PER_FILE]


def render_map(
    files: Sequence[MappedFile],
    matches: Sequence[CodeMatch],
    is_hidden: Callable[[str], bool],
    max_chars: int,
) -> str:
    """The map as text of at most `max_chars`; empty if the repository is small."""
    if not files:
        return ""
    names = {each.path: each.names for each in files}
    found = list(_fitting(_match_lines(matches, names), int(max_chars * MATCHES_SHARE)))
    shown = {each.path for each in matches[: len(found)]}
    parts = ["Files with words of the task:", *found, ""] if found else []
    left = max_chars - sum(len(line) + 1 for line in parts) - len(_CENTRAL) - 1
    central = (
        _line(each.path, each.names) for each in files if each.path not in shown and not is_hidden(each.path)
    )
    return "\n".join([*parts, _CENTRAL, *_fitting(central, left)])


_CENTRAL = "Files that others use most, and what they define:"


def _match_lines(matches: Sequence[CodeMatch], names: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for match in matches:
        place = f":{match.first_line} {match.kind} {match.symbol}" if match.symbol else ""
        yield (
            f"{match.path}{place}"[:MAX_LINE_CHARS] if place else _line(match.path, names.get(match.path, ()))
        )


def _line(path: str, names: Sequence[str]) -> str:
    return f"{path}: {', '.join(names)}"[:MAX_LINE_CHARS] if names else path[:MAX_LINE_CHARS]


def _fitting(lines: Iterator[str], max_chars: int) -> Iterator[str]:
    """As many lines as fit."""
    for line in lines:
        max_chars -= len(line) + 1
        if max_chars < 0:
            return
        yield line
