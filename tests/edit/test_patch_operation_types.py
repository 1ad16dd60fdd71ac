"""Hunks as values."""

from hutch.edit.patch_operation_types import Hunk, HunkLine


def test_a_hunk_has_its_old_and_new_lines() -> None:
    hunk = Hunk(((" ", "a"), ("-", "b"), ("+", "c")))
    assert hunk.old == (HunkLine(" ", "a", "\n"), HunkLine("-", "b", "\n"))
    assert hunk.new == (HunkLine(" ", "a", "\n"), HunkLine("+", "c", "\n"))


def test_a_cr_inside_a_line_ends_one_of_its_own() -> None:
    assert Hunk((("-", "10%\r20%\r"),)).file_lines == (
        HunkLine("-", "10%", "\r"),
        HunkLine("-", "20%", "\r\n"),
    )


def test_the_last_line_of_each_side_may_have_no_end() -> None:
    assert Hunk((("-", "a"), ("+", "b")), open_old=True).file_lines == (
        HunkLine("-", "a", ""),
        HunkLine("+", "b", "\n"),
    )
    assert Hunk((("-", "a"), ("+", "b")), open_new=True).file_lines == (
        HunkLine("-", "a", "\n"),
        HunkLine("+", "b", ""),
    )
    assert Hunk((("-", ""),), open_old=True).file_lines == (HunkLine("-", "", ""),)
