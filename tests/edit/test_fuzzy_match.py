"""An indexed text, and the levels of tolerance of a match."""

import pytest

from hutch.edit.fuzzy_match import IndexedText, MatchLevel, fold, occurrences, unfolded
from hutch.edit.quoted_text_replacement import find

TEXT = "a\r\n\r\nb b\rc \nd"


def test_an_indexed_text_finds_lines_by_counting_and_by_table() -> None:
    asked = IndexedText(TEXT)
    for _ in range(3):  # at first by counting, later from a table
        assert [asked.start_of(line) for line in range(6)] == [0, 3, 5, 9, 12, 13]
        assert [asked.line_at(offset) for offset in range(14)] == [0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4]
    plain = IndexedText("a\n\nb\n")
    for _ in range(3):
        assert [plain.start_of(line) for line in range(4)] == [0, 2, 3, 5]
        assert [plain.line_at(offset) for offset in range(6)] == [0, 0, 1, 2, 2, 2]


def test_line_ends_are_distinguished() -> None:
    assert IndexedText(TEXT).ends(0, 5) == ["\r\n", "\r\n", "\r", "\n", ""]
    assert IndexedText("a\nb").ends(0, 2) == ["\n", ""]
    assert IndexedText("a\nb\n").ends(1, 2) == ["\n"]
    assert (IndexedText("").bare, IndexedText("a\n").bare, IndexedText("\n").bare) == ([], ["a"], [""])


def test_blocks_of_lines_are_whole_lines() -> None:
    keys = IndexedText("xa\na\nb\n a\nb\n").keys(MatchLevel.INDENT)
    assert keys.blocks(["a", "b"], max_count=9) == [1, 3]
    for _ in range(5):
        assert [keys.position(offset) for offset in (1, 2, 4, 6)] == [(0, 0), (0, 1), (1, 0), (2, 0)]


@pytest.mark.parametrize(
    ("content", "old", "level"),
    [
        ("a\nb\n", "a\nb", MatchLevel.EXACT),
        ("a\r\nb\r\n", "a\nb", MatchLevel.ENDINGS),
        ("a\nb\n", "a\r\nb", MatchLevel.ENDINGS),
        ("a \nb\n", "a\nb", MatchLevel.TRAILING),
        ("  a\n  b\n", "a\nb", MatchLevel.INDENT),
        ("‘a’\n", "'a'", MatchLevel.PUNCTUATION),
        ("  ‘a’\n  b\n", "'a'\nb", MatchLevel.PUNCTUATION_INDENT),
    ],
)
def test_each_kind_of_mistake_has_its_level(content: str, old: str, level: MatchLevel) -> None:
    found, matches = find(IndexedText(content), old)
    assert (found, len(matches)) == (level, 1)


@pytest.mark.parametrize("old", ["zz", "\n\n", "a\nc", "b\na"])
def test_missing_text_is_found_at_no_level(old: str) -> None:
    assert find(IndexedText("  ‘a’ \r\n  b\r\n"), old)[1] == []


def test_folded_text_is_ascii_punctuation() -> None:
    assert fold("“a”—‘b’…\u00a0c") == "\"a\"-'b'... c"
    assert [unfolded("a…b", column) for column in range(6)] == [0, 1, None, None, 2, 3]


def test_overlapping_occurrences_count() -> None:
    assert occurrences("aaaa", "aa", max_count=9) == [0, 1, 2]
    assert occurrences("aaaa", "aa", max_count=9, step=2) == [0, 2]
    assert occurrences("aaaa", "aa", max_count=2) == [0, 1]
