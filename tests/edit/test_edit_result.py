"""The result of an edit, as text and diff."""

from hutch.edit.edit_result import EditedFile, file_result
from hutch.edit.span_mapping_across_edits import Span


def test_a_new_file_is_shown_in_part_and_its_diff_is_all_of_it() -> None:
    content = "".join(f"{number}\n" for number in range(100))
    file = file_result("f", None, content, None)
    assert (file.kind, file.lines.count("\n"), file.diff.count("\n+")) == ("created", 20, 101)
    assert file.lines.endswith("(80 more lines, to line 100)")


def test_a_deleted_file_is_shown_by_its_diff() -> None:
    file = file_result("f", "a\n", None, None)
    assert file == EditedFile("f", "deleted", "", "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n")


def test_without_spans_the_lines_at_both_ends_are_compared() -> None:
    file = file_result("f", "a\nb\nc\n", "a\nX\nc\n", None)
    assert file.diff == "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+X\n c\n"


def test_names_that_are_not_utf8_can_be_shown() -> None:
    file = file_result("caf\udce9", "a\n", "b\n", [Span(0, 1, 0, 1)])
    file.text.encode()
    file.diff.encode()


def test_an_empty_file_has_no_diff() -> None:
    assert (file_result("f", None, "", None).diff, file_result("f", None, "", None).lines) == ("", "")
