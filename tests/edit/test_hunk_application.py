"""The text that hunks lead to."""

import pytest

from hutch.domain.errors import BadRequest, Conflict
from hutch.edit.hunk_application import plan_hunks
from hutch.edit.patch_operation_types import Hunk


def hunk(text: str, **known: object) -> Hunk:
    return Hunk(tuple((each[0], each[1:]) for each in text.split("\n")), **known)


@pytest.mark.parametrize(
    ("content", "text", "expected"),
    [
        ("a\nb\nc\n", " a\n-b\n+B\n+BB\n c", "a\nB\nBB\nc\n"),
        ("a\r\nb\r\nc\r\n", " a\n-b\n+B\n c", "a\r\nB\r\nc\r\n"),
        ("1\r\n2\r3\n4\r\n", " 1\n 2\n-3\n+X\n 4", "1\r\n2\rX\r\n4\r\n"),
        ("1\r\n2\r3\n4\r\n", "-3\n+X", "1\r\n2\rX\n4\r\n"),
        ("a\rb\r", "-a\n+A", "A\rb\r"),
        ("a \nb\n", " a\n-b\n+B", "a \nB\n"),
        ("  if x:\n    y\n", " if x:\n-  y\n+  if z:\n+    y", "  if x:\n    if z:\n      y\n"),
        ("\tif x:\n\t\ty\n", "     if x:\n-        y\n+        z", "\tif x:\n\t\tz\n"),
        ("“a” – b\n", '-"a" - b\n+"a" - c', "“a” – c\n"),
        ("    a\n   b\n", " a\n-b\n+c", "    a\n   c\n"),
        ("a\nb", "-b\n+c", "a\nc"),  # no line end at the end: none after
        ("a\nb", "+c", "a\nb\nc"),
        ("a\nb", "-b", "a\n"),
        ("", "+a", "a\n"),
        ("a\nb\n", "-a\n-b", ""),
        ("a\nb\n", " a\n b", "a\nb\n"),
    ],
)
def test_only_removed_and_added_lines_are_touched(content: str, text: str, expected: str) -> None:
    assert plan_hunks(content, [hunk(text)]).content == expected


@pytest.mark.parametrize(
    ("content", "declared", "expected"),
    [
        ("a\nb", {"open_old": True}, "a\nc\n"),
        ("a\nb\n", {"open_new": True}, "a\nc"),
        ("a\nb", {"open_old": True, "open_new": True}, "a\nc"),
        ("a\nb\nz\n", {"open_new": True}, "a\nc\nz\n"),  # cannot be so inside a file
    ],
)
def test_a_diff_can_declare_that_the_last_line_has_no_end(
    content: str, declared: dict, expected: str
) -> None:
    assert plan_hunks(content, [hunk(" a\n-b\n+c", **declared)]).content == expected


@pytest.mark.parametrize(
    ("content", "text", "expected"),
    [
        ("a\r\nb\r\n", " a\r\n-b\r\n+c\n+d\r", "a\r\nc\r\nd\r\n"),
        ("a\nb\n", " a\n-b\n+c\r", "a\nc\n"),
        ("a\nb\n", "+c\r", "a\nb\nc\n"),
        ("", "+c\r", "c\r\n"),  # the file has no line end of its own
        ("a\r\nb\r\nc\nd\n", " a\r\n-b\r\n+x", "a\r\nx\r\nc\nd\n"),
    ],
)
def test_added_lines_end_as_those_of_the_file_do(content: str, text: str, expected: str) -> None:
    assert plan_hunks(content, [hunk(text)]).content == expected


@pytest.mark.parametrize("text", [" a\r\n-b\r\n+b", "-a\r\n-b\r\n+a\n+b"])
def test_a_hunk_that_changes_only_line_ends_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="it changes line ends only"):
        plan_hunks("a\r\nb\r\n", [hunk(text)])


def test_hunks_at_the_end_keep_their_order_and_its_state() -> None:
    hunks = [hunk("-b\n+B"), hunk("+new one"), hunk("+new two")]
    assert plan_hunks("a\nb", hunks).content == "a\nB\nnew one\nnew two"


def test_notes_name_inexact_matches_and_applied_hunks() -> None:
    plan = plan_hunks("  a\n  b\nnew line\n", [hunk("-a\n+A\n b"), hunk("-old line\n+new line")])
    assert plan.content == "  A\n  b\nnew line\n"
    assert plan.notes == (
        "Hunk 1 matched at another indentation; the new text was indented to fit.",
        "Hunk 2 is already applied at line 3.",
    )


def test_a_hunk_is_not_taken_for_applied_by_lines_above_its_anchor() -> None:
    content = "def one():\n    total = 2\n\ndef two():\n    total = 5\n"
    with pytest.raises(Conflict, match="its lines are not in the file"):
        plan_hunks(content, [hunk("-    total = 1\n+    total = 2", anchors=("def two():",))])
    again = plan_hunks(content, [hunk("-    total = 1\n+    total = 2", anchors=("def one():",))])
    assert again.notes == ("The hunk is already applied at line 2.",)


TWO_ALIKE = (
    "def a():\n    log('start')\n    value = compute_a()\n    return value\n\n"
    "def b():\n    log('start')\n    value = compute_old()\n    return value\n"
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("-    value = compute_x()\n+    value = compute_a()", None),
        ("-    value = compute_x()\n+    value = compute_a()", 8),
        ("     log('start')\n-    value = compute_bb()\n+    value = compute_a()\n     return value", None),
        ("     log('start')\n-    value = compute_bb()\n+    value = compute_a()\n     return value", 7),
        ("     log('start')\n-    value = compute_bb()\n     return value", None),
        ("-    print('stop')\n+    log('start')", None),  # two places read so
    ],
)
def test_a_hunk_without_anchor_is_not_taken_for_applied_where_another_place_may_be_meant(
    text: str, line: int | None
) -> None:
    with pytest.raises(Conflict, match="its lines are not in the file"):
        plan_hunks(TWO_ALIKE, [hunk(text, line=line)])


def test_a_line_number_says_where_a_hunk_was_applied() -> None:
    change = hunk("-    value = compute_x()\n+    value = compute_a()", line=3)
    assert plan_hunks(TWO_ALIKE, [change]).notes == ("The hunk is already applied at line 3.",)


def test_placeholders_are_refused() -> None:
    with pytest.raises(BadRequest, match=r"^The hunk: The new text has '# \.\.\. existing code"):
        plan_hunks("a\nb\n", [hunk("-a\n-b\n+# ... existing code ...")])
