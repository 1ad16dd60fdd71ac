"""Very large collections are handled in pieces, with the same results."""

import random

from hutch.system.chunks import PIECE, clear_in_pieces, equal_in_pieces, pieces, sort_in_pieces


def shuffled(count: int) -> list[str]:
    names = [f"file-{number}" for number in range(count)]
    random.Random(1).shuffle(names)
    return names


def test_no_piece_is_larger_than_a_piece() -> None:
    cut = list(pieces(range(3 * PIECE + 1)))
    assert [len(piece) for piece in cut] == [PIECE, PIECE, PIECE, 1]
    assert [value for piece in cut for value in piece] == list(range(3 * PIECE + 1))
    assert list(pieces([])) == []


def test_sorted_in_pieces_is_sorted() -> None:
    for count in (0, 1, PIECE, PIECE + 1, 3 * PIECE):
        names = shuffled(count)
        assert sort_in_pieces(names) == sorted(names)
        assert sort_in_pieces(names, key=len) == sorted(names, key=len)  # equal ones keep their order


def test_a_mapping_is_emptied() -> None:
    numbers = dict.fromkeys(range(2 * PIECE))
    clear_in_pieces(numbers, {})
    assert numbers == {}


def test_equal_is_what_holds_the_same() -> None:
    for count in (0, 1, PIECE, 2 * PIECE):
        names = dict.fromkeys(shuffled(count), 1)
        other = dict(reversed(names.items()))
        assert equal_in_pieces(names, names) and equal_in_pieces(names, other)
        assert not equal_in_pieces(names, other | {"one more": 1})
        assert not equal_in_pieces(dict(names, one=1), dict(names, two=1))
        assert not equal_in_pieces(dict(names, one=1), dict(names, one=2))
