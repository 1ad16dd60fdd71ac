"""Unified diffs, read."""

from dataclasses import replace

import pytest

from hutch.domain.errors import BadRequest
from hutch.edit.patch_operation_types import FileOperation, Hunk
from hutch.edit.unified_diff_parser import is_unified, parse_unified_diff

CHANGE = "@@ -1,2 +1,2 @@\n a\n-b\n+c"
HUNK = Hunk(((" ", "a"), ("-", "b"), ("+", "c")), line=1)


def read(diff: str) -> list[FileOperation]:
    return parse_unified_diff(diff.split("\n"))


@pytest.mark.parametrize(
    "header",
    [
        "--- a/src/f.py\n+++ b/src/f.py",
        "--- src/f.py\n+++ src/f.py",
        "--- src/f.py\t2024-01-01 10:00:00\n+++ src/f.py\t2024-01-02 10:00:00",
        "diff --git a/src/f.py b/src/f.py\nindex 123..456 100644\n--- a/src/f.py\n+++ b/src/f.py",
        "Some words before it.\n\nIndex: src/f.py\n=====\n--- src/f.py\n+++ src/f.py",
    ],
)
def test_headers_of_git_and_of_diff(header: str) -> None:
    assert read(f"{header}\n{CHANGE}") == [FileOperation("update", "src/f.py", hunks=(HUNK,))]


def test_files_are_added_deleted_moved_and_change_their_mode() -> None:
    diff = (
        "diff --git a/new b/new\nnew file mode 100755\n--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+x\n+y\n"
        "\\ No newline at end of file\n"
        "diff --git a/old b/old\ndeleted file mode 100644\n--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        "diff --git a/one b/two\nsimilarity index 90%\nrename from one\nrename to two\n--- a/one\n+++ b/two\n"
        f"{CHANGE}\n"
        "diff --git a/s.sh b/s.sh\nold mode 100644\nnew mode 100755\n"
        "diff --git a/c b/d\ncopy from c\ncopy to d\n"
        "diff --git a/empty b/empty\nnew file mode 100644\nindex 000..e69\n"
        "diff --git a/gone b/gone\ndeleted file mode 100644\nindex e69..000"
    )
    assert read(diff) == [
        FileOperation("add", "new", content="x\ny", mode=0o755),
        FileOperation("delete", "old"),
        FileOperation("update", "one", move_to="two", hunks=(HUNK,)),
        FileOperation("update", "s.sh", mode=0o755),
        FileOperation("update", "c", move_to="d", copy=True),
        FileOperation("add", "empty", mode=0o644),
        FileOperation("delete", "gone"),
    ]


def test_two_names_are_both_tried() -> None:
    assert read(f"--- f.py.orig\n+++ f.py\n{CHANGE}") == [
        FileOperation("update", "f.py", hunks=(HUNK,), otherwise="f.py.orig")
    ]


@pytest.mark.parametrize(
    ("header", "path"),
    [
        ('diff --git "a/caf\\303\\251 \\"x\\".py" "b/caf\\303\\251 \\"x\\".py"', 'café "x".py'),
        ("diff --git a/with space.py b/with space.py", "with space.py"),
        ('diff --git a/x.py "b/tab\\there.py"', "tab\there.py"),
    ],
)
def test_quoted_names_and_names_with_spaces(header: str, path: str) -> None:
    (operation,) = read(f"{header}\nold mode 100644\nnew mode 100755")
    assert operation.path == path


@pytest.mark.parametrize("ranges", ["-1,2 +1,2", "-1,9 +1,9", "-1 +1", "-7,2 +9,2"])
def test_wrong_counts_do_not_matter(ranges: str) -> None:
    diff = (
        f"--- a/f\n+++ b/f\n@@ {ranges} @@ def f():\n a\n-b\n+c\n@@ -9,1 +9,1 @@\n-d\n+e\n"
        f"--- a/g\n+++ b/g\n{CHANGE}\n"
    )
    first, second = read(diff)
    assert [hunk.lines for hunk in first.hunks] == [HUNK.lines, (("-", "d"), ("+", "e"))]
    assert (second.path, second.hunks) == ("g", (HUNK,))


def test_removed_lines_that_look_like_a_header_are_lines() -> None:
    (operation,) = read("--- a/f.sql\n+++ b/f.sql\n@@ -1,2 +1,2 @@\n--- old comment\n+++ new\n x\n")
    assert operation.hunks[0].lines == (("-", "-- old comment"), ("+", "++ new"), (" ", "x"))


def test_an_empty_context_line_may_lack_its_space() -> None:
    (operation,) = read("--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n")
    assert operation.hunks[0].lines == ((" ", "a"), (" ", ""), ("-", "b"), ("+", "c"))


def test_a_hunk_without_numbers_may_name_a_line_above() -> None:
    (operation,) = read("--- a/f\n+++ b/f\n@@ def f():\n-a\n+b\n@@\n-c\n+d")
    assert [(hunk.anchors, hunk.line) for hunk in operation.hunks] == [(("def f():",), None), ((), None)]


def test_missing_line_ends_are_read_for_each_side() -> None:
    mark = "\\ No newline at end of file"
    (operation,) = read(f"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n{mark}\n+b\n@@ -5 +5 @@\n-a\n+b\n{mark}")
    assert [(hunk.open_old, hunk.open_new) for hunk in operation.hunks] == [(True, False), (False, True)]


@pytest.mark.parametrize(
    ("diff", "words"),
    [
        (
            "diff --git a/x.png b/x.png\nBinary files a/x.png and b/x.png differ",
            "Line 2 .*'x.png', which is binary",
        ),
        (
            "diff --git a/x b/x\nindex 1..2\nGIT binary patch\nliteral 0",
            "'x', which is binary.*write the whole file",
        ),
        (
            "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+x",
            "mode 120000",
        ),
        ("@@ -1 +1 @@\n-a\n+b", "no file is named"),
        ("--- a/f\n+++ b/f\n", "'f' has no hunk"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@", "Line 3 .*without lines"),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b", "names no file"),
        ("--- /dev/null\n+++ b/f\n@@ -1 +1 @@\n-a\n+b", r"must all begin with '\+'"),
        ("diff --cc f\n--- a/f\n+++ b/f\n@@@ -1 -1 +1 @@@\n  a\n--b\n++c", "merge"),
        ("words", "changes no file"),
    ],
)
def test_errors_are_described(diff: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        read(diff)


def test_a_rename_may_leave_one_name_to_the_first_line() -> None:
    assert read("diff --git a/x b/y\nrename from x")[0] == FileOperation("update", "x", move_to="y")


def test_a_diff_is_recognised() -> None:
    assert is_unified(["text", "--- a/f", "+++ b/f"])
    assert is_unified(["diff --git a/f b/f"])
    assert not is_unified(["--- a", "b"])
    assert not is_unified([])


def test_the_text_after_the_line_numbers_is_a_heading() -> None:
    diff = "--- f\n+++ f\n@@ -1,2 +1,2 @@ def f():\n a\n-b\n+c"
    assert read(diff) == [FileOperation("update", "f", hunks=(replace(HUNK, heading="def f():"),))]
