"""The best matches of a query in an index: files, and in each the definition or lines that match.

The order of files comes from `file_ranking.py`, and from their meaning if a model gave it. Each
match says why it was found.
"""

import math
import os
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from hutch.domain.errors import BadRequest
from hutch.snapshots.git_object_reader import GitObjects
from hutch.store.code_index_database import CodeIndexTables
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.code_search.code_index import read_text
from hutch.workspace.code_search.file_ranking import CANDIDATES, rank_paths, word_weights
from hutch.workspace.code_search.search_words import query_words, split, without_references
from hutch.workspace.code_search.symbols_and_references import Symbol

MAX_SPAN_LINES = 400
AROUND_LINES = 4
MAX_SHOWN_WORDS = 8
MAX_USES = 8
FUSION_PLACES = 30  # larger: the first places count less
_NAME = re.compile(r"[^\W\d]\w{2,}")
_RUN = re.compile(r"\w+")

Mask = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeQuery:
    """The text to find, where, and for whom."""

    text: str
    below: str = ""  # a directory or a file
    limit: int = 10
    is_hidden: Callable[[str], bool] = field(default=lambda path: False)
    mask: Mask | None = None  # hides secrets: a line with a secret is shown without it
    omits_secrets: bool = False  # leave out files that contain a secret: a match would confirm a guess


@dataclass(frozen=True, slots=True)
class CodeMatch:
    """A file, and the lines of it that match best."""

    path: str
    first_line: int
    last_line: int
    symbol: str  # the definition around them; empty if there is none
    kind: str
    why: str
    lines: tuple[tuple[int, str], ...]  # the matching lines, with their numbers


class NearLines(NamedTuple):
    """Lines of a file that are near to a query in meaning."""

    path: bytes
    first_line: int
    last_line: int


class _Span(NamedTuple):
    first_line: int
    last_line: int
    symbol: Symbol | None


def find_matches(
    tables: CodeIndexTables, objects: GitObjects, query: CodeQuery, near: Sequence[NearLines] = ()
) -> list[CodeMatch]:
    """The best matches, one for each file. `near` are lines that are near in meaning, the best first."""
    words = query_words(query.text)
    if not words:
        raise BadRequest("The query has no words. Give words or the name of a symbol.")
    names = list(dict.fromkeys(_NAME.findall(without_references(query.text))))[:16]
    defined = {name: set(tables.find_definitions(name, CANDIDATES)) for name in names}
    matches: list[CodeMatch] = []
    weights = word_weights(tables, words)
    ranked = rank_paths(tables, weights, defined, is_name=len(query.text.split()) == 1)
    by_meaning = {each.path: each for each in near}
    for raw in _fused(ranked, by_meaning) if near else ranked:
        path = os.fsdecode(raw)
        if not _is_below(path, query.below) or query.is_hidden(path):
            continue
        found = tables.read_file(raw)
        if found is None:
            continue
        blob, symbols, uses = found
        if query.omits_secrets and query.mask and not _is_free_of_secrets(objects, blob, query.mask):
            continue
        text = read_text(objects, blob, query.mask or bytes)
        known = [Symbol(str(kind), str(name), int(first), int(last)) for kind, name, first, last in symbols]
        matches.append(_match(path, text, known, uses, names, weights, by_meaning.get(raw)))
        if len(matches) == query.limit:
            break
    return matches


def _fused(ranked: Sequence[bytes], near: Iterable[bytes]) -> list[bytes]:
    """One order of two: a file's places in both count (reciprocal rank fusion)."""
    scores: defaultdict[bytes, float] = defaultdict(float)
    for order in (ranked, near):
        for place, path in enumerate(order):
            scores[path] += 1 / (FUSION_PLACES + place)
    return sorted(scores, key=lambda path: (-scores[path], path))


def _is_below(path: str, below: str) -> bool:
    return not below or path == below or path.startswith(f"{below}/")


def _is_free_of_secrets(objects: GitObjects, blob: bytes, mask: Mask) -> bool:
    return read_text(objects, blob) == read_text(objects, blob, mask)


def _match(
    path: str,
    text: str,
    symbols: Sequence[Symbol],
    uses: Mapping[str, Sequence[int]],
    names: Sequence[str],
    weights: Mapping[str, float],
    near: NearLines | None,
) -> CodeMatch:
    lines = text.split("\n")
    hits = dict(_hits(lines, weights))
    defines = next((symbol for symbol in symbols if symbol.name in names), None)
    if defines is not None and len(split(defines.name)) == 1 and len(names) > 1:
        defines = None  # a plain word that happens to be a name
    span = (
        _Span(defines.first_line, defines.last_line, defines)
        if defines
        else _best_span(hits, symbols, weights, len(lines))
        if hits or near is None
        else _Span(near.first_line, near.last_line, None)
    )
    shown = sorted(
        (number for number in hits if span.first_line <= number <= span.last_line),
        key=lambda number: (-sum(weights[word] for word in hits[number]), number),
    )[:3]
    return CodeMatch(
        path=path,
        first_line=span.first_line,
        last_line=span.last_line,
        symbol=_qualified(span.symbol, symbols) if span.symbol else "",
        kind=span.symbol.kind if span.symbol else "",
        why=_why(path, defines, uses, names, hits, weights, near),
        lines=tuple((number, lines[number - 1].strip()) for number in sorted(shown)),
    )


def _hits(lines: Sequence[str], weights: Mapping[str, float]) -> Iterator[tuple[int, frozenset[str]]]:
    """The lines with words of the query, and these words."""
    wanted = re.compile("|".join(map(re.escape, weights)), re.IGNORECASE)
    for number, line in enumerate(lines, 1):
        if wanted.search(line):
            words = frozenset(word for run in _RUN.findall(line) for word in split(run) if word in weights)
            if words:
                yield number, words


def _best_span(
    hits: Mapping[int, frozenset[str]], symbols: Sequence[Symbol], weights: Mapping[str, float], total: int
) -> _Span:
    """The definition that says most about the query for its length; otherwise some lines around the best."""
    if not hits:
        return _Span(1, min(total, 1 + AROUND_LINES), None)
    numbers = sorted(hits)
    best, best_score = None, 0.0
    for symbol in symbols:
        length = symbol.last_line - symbol.first_line + 1
        if length > MAX_SPAN_LINES:
            continue
        inside = numbers[bisect_left(numbers, symbol.first_line) : bisect_right(numbers, symbol.last_line)]
        words = frozenset[str]().union(*(hits[number] for number in inside))
        named = {word for run in _RUN.findall(symbol.name) for word in split(run)} & words
        score = (sum(weights[word] for word in words) + sum(weights[word] for word in named)) / math.log(
            10 + length
        )
        if score > best_score:
            best, best_score = symbol, score
    if best is not None:
        return _Span(best.first_line, best.last_line, best)
    line = max(numbers, key=lambda number: (sum(weights[word] for word in hits[number]), -number))
    return _Span(max(1, line - AROUND_LINES), min(total, line + AROUND_LINES), None)


def _qualified(symbol: Symbol, symbols: Sequence[Symbol]) -> str:
    """The name of a symbol after those around it; of a heading, its own."""
    if symbol.kind == "heading":
        return symbol.name
    around = [
        other.name
        for other in symbols
        if other.first_line < symbol.first_line and symbol.last_line <= other.last_line
    ]
    return ".".join([*around[-3:], symbol.name])


def _why(
    path: str,
    defines: Symbol | None,
    uses: Mapping[str, Sequence[int]],
    names: Sequence[str],
    hits: Mapping[int, frozenset[str]],
    weights: Mapping[str, float],
    near: NearLines | None,
) -> str:
    reasons = [f"defines {defines.name}"] if defines else []
    if near is not None:
        reasons.append(f"near in meaning in lines {near.first_line} to {near.last_line}")
    for name in names:
        if (len(names) == 1 or len(split(name)) > 1) and (used := uses.get(name)):
            more = f" and {len(used) - MAX_USES} more" if len(used) > MAX_USES else ""
            reasons.append(f"uses {name} in lines {', '.join(map(str, used[:MAX_USES]))}{more}")
    counts = Counter(word for words in hits.values() for word in words)
    told = sorted(counts, key=lambda word: -weights[word])[:MAX_SHOWN_WORDS]
    if told:
        reasons.append("words: " + ", ".join(f"{word} ({counts[word]})" for word in told))
    path_words = {word for run in _RUN.findall(path) for word in split(run)}
    in_path = [word for word in weights if word in path_words]
    if in_path:
        reasons.append(f"path: {', '.join(in_path[:MAX_SHOWN_WORDS])}")
    return "; ".join(reasons)
