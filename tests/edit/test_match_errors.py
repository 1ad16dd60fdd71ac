"""Errors for a quote that cannot be replaced."""

from hutch.edit.fuzzy_match import IndexedText
from hutch.edit.match_errors import already_applied, ambiguous, format_lines, not_found
from hutch.edit.quoted_text_replacement import find


def test_many_matches_are_listed_by_first_lines_and_total() -> None:
    page = IndexedText("x\n" * 60)
    message = str(ambiguous(page, *find(page, "x")))
    assert message.startswith("'old' is in the file 60 times: lines 1, 2, 3,")
    assert " 50 and 10 more. Quote more" in message
    page = IndexedText("x\n" * 5_000)
    assert "1000 or more times" in str(ambiguous(page, *find(page, "x")))


def test_the_note_says_how_an_inexact_match_was_found() -> None:
    page = IndexedText("  a\n  b\n\n  a\n  b\n")
    assert "2 times (matched at another indentation" in str(ambiguous(page, *find(page, "a\nb\n")))


def test_long_quotes_are_shown_in_part() -> None:
    lines = [f"some line number {number}" for number in range(30)]
    message = str(not_found(IndexedText("\n".join(lines) + "\n"), "\n".join([*lines[:-1], "some other end"])))
    assert message.count("some line number") == 15
    assert "(and 15 more)" in message


def test_the_error_says_when_nothing_is_similar() -> None:
    assert str(not_found(IndexedText("abc\n"), "quite something else")).startswith(
        "'old' is not in the file, nor anything similar. Read the file again"
    )


def test_a_word_inside_another_is_not_the_new_text() -> None:
    assert already_applied(IndexedText("prefixed = 1\n"), "gone", "fixed") == ""
    assert already_applied(IndexedText("the fixed one\n"), "gone", "fixed").startswith("already applied")
    assert already_applied(IndexedText("a b\n"), "gone", "a") == ""  # too short to be sure
    assert already_applied(IndexedText("a\n"), "gone", "a") != ""  # but a whole line
    assert already_applied(IndexedText("a\n"), "gone", "") == ""
    alike = IndexedText("value = compute_a()\nother\nvalue = compute_old()\n")  # either may be meant
    assert already_applied(alike, "value = compute_x()", "value = compute_a()") == ""


def test_line_numbers_are_formatted_as_text() -> None:
    assert format_lines([3], 1) == "line 3"
    assert format_lines([3, 9], 2) == "lines 3, 9"
