"""The order of the files of an index for a query.

A file matches by its words (BM25; names of symbols count more), by its path, and by
defining a symbol that the query names. Among files that match about equally, a large one
comes first, and data and examples come last. `bench/claim_code_search.py` has the labels
that the weights were chosen with.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from heapq import nlargest

from hutch.store.code_index_database import CodeIndexTables, SizedFile
from hutch.workspace.code_search.search_words import split

CANDIDATES = 300
MAX_RANKED = 1_000  # contents, among them earlier versions that no file has any more
COMMON_WEIGHT = math.log(3)  # of a word in half of all contents: it tells nothing about one of them
WORDS_SHARE = 2.5  # of BM25, for each unit of what the words of the query say together
COVERAGE_SHARE = 1.5  # for containing a word at all: queries name many words, and files have few of them
PATH_SHARE = 5.0
DEFINITION_BONUS = 1.0  # as a share of the best score
SIZE_WEIGHT = 0.33  # for each natural logarithm of the number of characters: large files are changed more
DATA_MALUS, EXAMPLE_MALUS, PAGE_MALUS = 1.0, 1.0, 0.3
_PAGES = (b".md", b".rst", b".txt")
_DATA = (
    *(b".json", b".yaml", b".yml", b".toml", b".ini", b".cfg", b".conf", b".lock", b".csv", b".tsv"),
    *(b".svg", b".xml", b".po", b".pot", b".map", b".sum"),
)
_EXAMPLES = frozenset(
    b"example examples sample samples bench benchmark benchmarks vendor _vendor vendored third_party "
    b"node_modules fixtures testdata".split()
)


def word_weights(tables: CodeIndexTables, words: Sequence[str]) -> dict[str, float]:
    """How much each word says: rare ones more."""
    counts = tables.document_counts(words)
    total = max(1, tables.counts()[1])
    return {word: math.log(1 + total / (1 + counts.get(word, 0))) for word in words}


def rank_paths(
    tables: CodeIndexTables,
    weights: Mapping[str, float],
    defined: Mapping[str, set[bytes]],
    *,
    is_name: bool,
) -> list[bytes]:
    """The paths, the best first: by the words of the text and of the path, and by defining a named symbol."""
    words = list(weights)
    telling = [word for word in words if weights[word] > COMMON_WEIGHT] or words
    by_document: defaultdict[int, float] = defaultdict(float)
    for document, score in tables.find_by_words(telling, CANDIDATES):
        by_document[document] += WORDS_SHARE * score
    found_weight = 0.0
    for word in telling:
        containing = tables.find_containing(word)
        found_weight += weights[word] * bool(containing)
        for document in containing:
            by_document[document] += COVERAGE_SHARE * weights[word]
    found_weight = found_weight or 1.0
    leading = nlargest(MAX_RANKED, by_document, key=by_document.__getitem__)
    scores: dict[bytes, float] = {}
    for file in tables.files_of(leading):
        scores[file.path] = by_document[file.document] / found_weight + _prior(file)
    for file, score in tables.find_by_path(words, CANDIDATES):
        scores.setdefault(file.path, by_document.get(file.document, 0.0) / found_weight + _prior(file))
        scores[file.path] += PATH_SHARE * score / found_weight
    best = max([1.0, *scores.values()])
    for name, paths in defined.items():
        is_identifier = is_name or len(split(name)) > 1
        for path in paths if is_identifier else ():
            scores[path] = scores.get(path, 0.0) + DEFINITION_BONUS * best / len(paths)
    return [path for path, _ in sorted(scores.items(), key=lambda item: (-item[1], item[0]))]


def _prior(file: SizedFile) -> float:
    """How likely a file is the right one before its words are known."""
    path = file.path.lower()
    score = SIZE_WEIGHT * math.log(1 + file.chars)
    if path.endswith(_DATA):
        score -= DATA_MALUS
    elif path.endswith(_PAGES):
        score -= PAGE_MALUS
    return score if _EXAMPLES.isdisjoint(path.split(b"/")[:-1]) else score - EXAMPLE_MALUS
