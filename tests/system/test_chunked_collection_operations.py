"""Very large collections are handled in pieces, with the same results."""

import random

from hutch.system.chunked_collection_operations import (
    CHUNK_SIZE,
    chunks,
    clear_in_chunks,
    equal_in_chunks,
    sort_in_chunks,
)


def shuffled(count: int) -> list[str]:
    names = [f"file-{number}" for number in range(count)]
    random.Random(1).shuffle(names)
    return names


def test_no_piece_is_larger_than_a_piece() -> None:
    cut = list(chunks(range(3 * CHUNK_SIZE + 1)))
    assert [len(piece) for piece in cut] == [CHUNK_SIZE, CHUNK_SIZE, CHUNK_SIZE, 1]
    assert [value for piece in cut for value in piece] == list(range(3 * CHUNK_SIZE + 1))
    assert list(chunks([])) == []


def test_sorted_in_pieces_is_sorted() -> None:
    for count in (0, 1, CHUNK_SIZE, CHUNK_SIZE + 1, 3 * CHUNK_SIZE):
        names = shuffled(count)
        assert sort_in_chunks(names) == sorted(names)
        assert sort_in_chunks(names, key=len) == sorted(names, key=len)  # equal ones keep their order


def test_a_mapping_is_emptied() -> None:
    numbers = dict.fromkeys(range(2 * CHUNK_SIZE))
    clear_in_chunks(numbers, {})
    assert numbers == {}


def test_equal_in_chunks_equals_the_operator() -> None:
    for count in (0, 1, CHUNK_SIZE, 2 * CHUNK_SIZE):
        names = dict.fromkeys(shuffled(count), 1)
        other = dict(reversed(names.items()))
        assert equal_in_chunks(names, names) and equal_in_chunks(names, other)
        assert not equal_in_chunks(names, other | {"one more": 1})
        assert not equal_in_chunks(dict(names, one=1), dict(names, two=1))
        assert not equal_in_chunks(dict(names, one=1), dict(names, one=2))
