"""The patch envelope, read."""

import pytest

from hutch.domain.errors import BadRequest
from hutch.edit.patch_envelope import parse_envelope, strip_wrapper
from hutch.edit.patch_operation_types import FileOperation, Hunk


def read(body: str) -> list[FileOperation]:
    return parse_envelope(strip_wrapper(f"*** Begin Patch\n{body}\n*** End Patch"))


def test_files_are_added_updated_moved_and_deleted() -> None:
    body = (
        "*** Add File: new/a.py\n+x = 1\n+\n+y = 2\n"
        "*** Update File: b.py\n*** Move to: lib/b.py\n@@ class B:\n@@   def f():\n a\n-b\n+c\n"
        "@@\n d\n+e\n*** End of File\n"
        "*** Delete File: c.py"
    )
    assert read(body) == [
        FileOperation("add", "new/a.py", content="x = 1\n\ny = 2\n"),
        FileOperation(
            "update",
            "b.py",
            move_to="lib/b.py",
            hunks=(
                Hunk(((" ", "a"), ("-", "b"), ("+", "c")), ("class B:", "  def f():")),
                Hunk(((" ", "d"), ("+", "e")), at_end=True),
            ),
        ),
        FileOperation("delete", "c.py"),
    ]


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (" a\n+b", ((" ", "a"), ("+", "b"))),  # the first hunk needs no '@@'
        ("@@\n a\n\n-b", ((" ", "a"), (" ", ""), ("-", "b"))),  # an empty line has lost its space
        ("@@\n a\n-b\n\n\n", ((" ", "a"), ("-", "b"))),  # decoration
        ("\n\n@@\n-b", (("-", "b"),)),
        ("@@\nunsigned\n-b", ((" ", "unsigned"), ("-", "b"))),
        ("@@\n--- x\n+++ y", (("-", "-- x"), ("+", "++ y"))),
    ],
)
def test_hunks_are_read_as_models_write_them(body: str, lines: tuple) -> None:
    assert read(f"*** Update File: f\n{body}")[0].hunks == (Hunk(lines),)


def test_line_numbers_after_the_signs_are_a_hint() -> None:
    numbered = read("*** Update File: f\n@@ -3,2 +3,2 @@ def f():\n-a\n+b")[0].hunks[0]
    assert (numbered.line, numbered.heading) == (3, "def f():")


@pytest.mark.parametrize(
    "patch",
    [
        " *** Begin Patch \n  *** Add File: f\n+x\n\t*** End Patch\n\n",
        "cat <<'EOF'\n*** Begin Patch\n*** Add File: f\n+x\n*** End Patch\nEOF\n",
        'apply_patch <<"PATCH"\n*** Begin Patch\n*** Add File: f\n+x\n*** End Patch\nPATCH',
        "<<EOF\n*** Begin Patch\n*** Add File: f\n+x\n*** End Patch\nEOF",
        "```diff\n*** Begin Patch\n*** Add File: f\n+x\n*** End Patch\n```",
        "*** Begin Patch\r\n*** Add File: f\r\n+x\r\n*** End Patch\r\n",
        "*** Begin Patch\n\n*** Add File:f\n+x\n\n*** End Patch",
    ],
)
def test_wrappers_around_a_patch_are_ignored(patch: str) -> None:
    assert parse_envelope(strip_wrapper(patch)) == [FileOperation("add", "f", content="x\n")]


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ("", r"first line of a patch must be '\*\*\* Begin Patch', and it is missing"),
        ("bad", r"must be '\*\*\* Begin Patch', and it is 'bad'"),
        ("<<\"EOF'\n*** Begin Patch\n*** End Patch\nEOF", "first line of a patch"),
        (
            "*** Begin Patch\n*** Add File: f\n+x",
            r"last line.*must be '\*\*\* End Patch'.*cut off.*smaller parts",
        ),
        ("*** Begin Patch\n*** End Patch", "The patch is empty"),
        (
            "*** Begin Patch\n*** Rename File: f\n*** End Patch",
            r"Line 2 of the patch, '\*\*\* Rename File: f', is not",
        ),
        ("*** Begin Patch\n*** Add File:\n+x\n*** End Patch", "Line 2 .*names no file"),
        (
            "*** Begin Patch\n*** Add File: f\n+x\ny\n*** End Patch",
            r"Line 4 .*'y'.*'f'.*must begin with '\+'",
        ),
        ("*** Begin Patch\n*** Update File: f\n*** End Patch", "'f' has no hunk|Update File: f' has no hunk"),
        ("*** Begin Patch\n*** Update File: f\n@@ x\n*** End Patch", "Line 3 .*begins a hunk without lines"),
        (
            "*** Begin Patch\n*** Update File: f\n*** Move to:\n-a\n*** End Patch",
            "Line 3 .*names no file to move to",
        ),
    ],
)
def test_errors_name_their_line(patch: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        parse_envelope(strip_wrapper(patch))


def test_a_file_can_be_moved_without_changing_it() -> None:
    assert read("*** Update File: a\n*** Move to: b") == [FileOperation("update", "a", move_to="b")]


def test_a_million_lines_are_read_in_one_pass() -> None:
    hunks = read("*** Update File: f\n" + "@@\n-a\n+b\n" * 300_000)[0].hunks
    assert len(hunks) == 300_000
