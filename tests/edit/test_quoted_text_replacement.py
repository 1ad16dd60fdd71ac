"""Fitting new text into the place of a quote."""

import pytest

from hutch.edit.fuzzy_match import IndexedText, MatchLevel
from hutch.edit.quoted_text_replacement import find, find_at, fit, keep_punctuation, split_quote
from hutch.edit.span_mapping_across_edits import Replacement


def fitted(content: str, old: str, new: str) -> Replacement:
    page = IndexedText(content)
    level, matches = find(page, old, new)
    return fit(page, level, matches[0], old, new)


def test_lines_that_stay_keep_the_files_bytes() -> None:
    content = "if x: \t\r\n  a  \r\n  b\n  c\r\n"
    replacement = fitted(content, "if x:\n  a\n  b\n  c\n", "if x:\n  a\n  new\n  b\n  d\n")
    assert replacement == Replacement(0, len(content), "if x: \t\r\n  a  \r\n  new\r\n  b\n  d\r\n")


def test_a_quote_may_begin_and_end_inside_lines() -> None:
    assert fitted("call(one, \n  two) # note\n", "one,\n  two", "1,\n  2") == Replacement(5, 16, "1,\n  2")


def test_space_at_the_end_of_a_quote_means_the_end_of_a_line() -> None:
    page = IndexedText("foo bar\nfoo\n")
    assert [match.start for match in find_at(page, MatchLevel.TRAILING, "foo \n")] == [8]
    assert find_at(page, MatchLevel.TRAILING, "bar  ")[0].end == 7


def test_a_quote_never_splits_a_crlf() -> None:
    page = IndexedText("a\r\nb\r\n")
    assert find_at(page, MatchLevel.EXACT, "\nb") == []
    assert find_at(page, MatchLevel.EXACT, "a\r") == []
    assert len(find_at(page, MatchLevel.EXACT, "\r\nb")) == 1


def test_all_matches_do_not_overlap() -> None:
    page = IndexedText("a\na\na\n")
    assert [match.start for match in find(page, "a\na\n")[1]] == [0, 2]
    assert [match.start for match in find(page, "a\na\n", every=True)[1]] == [0]


@pytest.mark.parametrize(
    ("old", "new", "file_line", "result"),
    [
        ('say "a" - b', 'say "a" - c', "say “a” – b", "say “a” – c"),
        ("x...", "y...", "x…", "y…"),
        ("...", "..", "…", ".."),  # inside an ellipsis there is nothing to keep
        ("a", "b", "a", "b"),
    ],
)
def test_punctuation_around_a_change_stays(old: str, new: str, file_line: str, result: str) -> None:
    assert keep_punctuation(old, new, file_line) == result


def test_lines_of_a_quote() -> None:
    assert split_quote("a\r\nb\rc\n") == ["a", "b", "c", ""]
