"""Work on very large collections, one chunk at a time.

A single call into C, such as sorting a list or freeing a dict, holds the interpreter lock
until it returns. On 300,000 names that blocks the event loop for a tenth of a second,
in any thread. Between two chunks other threads can run.
"""

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from itertools import islice
from typing import Any, TypeVar

CHUNK_SIZE = 8192  # entries that one call handles: a few milliseconds
Value = TypeVar("Value")


def chunks(values: Collection[Value]) -> Iterator[list[Value]]:
    """The same values in the same order, in lists of at most CHUNK_SIZE."""
    remaining = iter(values)
    while chunk := list(islice(remaining, CHUNK_SIZE)):
        yield chunk


def sort_in_chunks(values: Collection[Value], *, key: Callable[[Value], Any] | None = None) -> list[Value]:
    """The same result as `sorted`."""
    ordered = [sorted(chunk, key=key) for chunk in chunks(values)]  # type: ignore[type-var, arg-type]
    if len(ordered) <= 1:
        return ordered[0] if ordered else []
    return list(heapq.merge(*ordered, key=key))  # type: ignore[arg-type]


def equal_in_chunks(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """The same result as `==`."""
    if first is second or len(first) != len(second) or len(first) <= CHUNK_SIZE:
        return first == second
    return all(name in second and second[name] == value for name, value in first.items())


def clear_in_chunks(*mappings: MutableMapping[Any, Any]) -> None:
    """Empty mappings that own their values, one entry at a time."""
    for mapping in mappings:
        while mapping:
            mapping.popitem()
