"""The words of a text or a query, so that both match: identifiers are split, endings removed.

`getUserNames` has the words getusernames, get, user and name. The same function makes
the words of files, of paths and of queries.
"""

import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise

MAX_WORD_CHARS = 64
MAX_REPEATS = 5  # of one word in the index: more says little, and costs space
MAX_QUERY_WORDS = 32
_RUN = re.compile(r"\w+")
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]{0,20}://\S+", re.IGNORECASE)
# Names of people and numbers of issues, as in changelogs and commits: `Thanks @mona.`, `(PR 12)`. Other
# names after `@` may be decorators.
_CREDIT = re.compile(
    r"\b(?:thanks|thank you|(?:reported |patch |contributed )by|by(?= @))\b[^.\n]*"
    r"|#\d+\b|\b(?:gh|prs?|pull requests?|issues?)[ #-]{1,3}\d+\b",
    re.IGNORECASE,
)
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\dA-Za-z_]+")
_VOWELS = frozenset("aeiouy")
_COMMON_TEXT = """
a about after again all also always an and any are as at be because been before but by can could do
does each even every fix fixed fixes fixing for from get had has have how i if in instead into is it
its just let like longer make may more most must no not now of off on once one only or other our out
over own say set should show since so some such than thanks that the their them then there these
they this those to too two under up use used very was we were what when where which while who why
will with without would yet you your
"""
_COMMON = frozenset(_COMMON_TEXT.split())


def index_words(text: str) -> str:
    """The words of a text, separated by spaces, each at most a few times."""
    words: dict[str, int] = {}
    for run, number in Counter(_RUN.findall(text)).items():
        for word in split(run):
            words[word] = words.get(word, 0) + number
    return "".join((word + " ") * min(number, MAX_REPEATS) for word, number in words.items())


def is_common(word: str) -> bool:
    """True for words that say nothing about code, such as articles."""
    return word.lower() in _COMMON


def without_references(query: str) -> str:
    """A query without addresses, numbers of issues and thanks to people: their words say nothing about
    code. If it has nothing else, all of it."""
    rest = _CREDIT.sub(" ", _ADDRESS.sub(" ", query[:10_000]))
    return rest if _RUN.search(rest) else query[:10_000]


def query_words(query: str) -> list[str]:
    """The different words of a query, without references; without common words unless there are no others."""
    runs = _RUN.findall(without_references(query))
    telling = [run for run in runs if not is_common(run)] or runs
    pairs = [f"{one}_{other}".lower() for one, other in pairwise(telling)]  # `line editor`: `line_editor`
    words = dict.fromkeys(word for run in telling for word in split(run))
    return [*list(words)[:MAX_QUERY_WORDS], *pairs[:MAX_QUERY_WORDS]]


@lru_cache(maxsize=100_000)
def split(run: str) -> tuple[str, ...]:
    """The words of an identifier: itself, if it has several parts, and its parts."""
    if len(run) > MAX_WORD_CHARS:
        return ()
    parts = [part.lower() for part in _PART.findall(run)]
    stems = [stem(part) for part in parts if len(part) > 1 or len(parts) == 1]
    whole = run.lower().strip("_")
    return tuple(dict.fromkeys([*([whole] if len(parts) > 1 else []), *stems]))


def stem(word: str) -> str:
    """The word without the endings of English: parser, parses and parsing have one stem."""
    if not word.isascii() or len(word) < 4:
        return word
    if word.endswith("ies"):
        word = f"{word[:-3]}y"
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending, shortest in (("ing", 6), ("ed", 5), ("er", 6), ("or", 7), ("ion", 7), ("ly", 6)):
        rest = word[: -len(ending)]
        if len(word) >= shortest and word.endswith(ending) and not _VOWELS.isdisjoint(rest):
            word = rest[:-1] if rest[-1] == rest[-2] and rest[-1] not in "ls" else rest
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word
