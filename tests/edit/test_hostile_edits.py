"""Hostile edits and patches end soon; without limits they would run for minutes or for ever."""

from collections.abc import Sequence

import pytest

from hutch.domain.errors import BadRequest, HutchError
from hutch.edit.atomic_apply import apply_patch, edit_file
from hutch.edit.file_operation_types import FileChange, Operation


class OneFile:
    """One large file under every name; writes are only counted."""

    def __init__(self, content: str) -> None:
        self.data = content.encode()
        self.written = 0

    def read_bytes(self, path: str) -> tuple[bytes, int]:
        return self.data, 0o644

    def change(self, operations: Sequence[Operation]) -> list[FileChange]:
        self.written = len(operations)
        return []


SAME = "a\n" * 300_000
NUMBERED = "".join(f"line number {number}\n" for number in range(60_000))
MAX_ANSWER_CHARS = 30_000  # characters that an answer may have


@pytest.mark.parametrize(
    ("content", "path", "old", "new"),
    [
        (SAME, "f.txt", "a\n" * 100_000 + "c", "b"),
        (SAME, "f.txt", "a\n" * 1_000, "b"),
        ("x" * 1_000_000, "f.txt", "y" * 1_000, "b"),
        (" " * 1_000_000 + "x\n", "f.txt", " " * 1_000 + "y", "b"),
        ("  a\n b\n" * 100_000, "f.txt", "a\nb\n", "x\n"),
        ("a line\r" * 100_000, "f.txt", "a line\na line\na line x", "b"),
        ("foo bar baz " * 80_000, "f.txt", "foo bar qux " * 80_000, "b"),
        (NUMBERED, "f.txt", NUMBERED.replace("number", "numbr"), "b"),
        ("foo\n", "f.txt", "foo", ("# the rest of the " + "the " * 30 + "\n") * 10_000),
        ("foo\n", "f.txt", (" " * 100_000 + "1\t\n") * 10, "b"),
        ("".join(" " * depth + "x\n" for depth in range(1_200)), "f.py", " x\n  x\n   x\n    z\n", "b"),
        ("x = " + "(" * 20_000 + ")" * 20_000 + "\n", "f.py", "x = ", "y = ]"),
        ("[" * 20_000 + "1" + "]" * 20_000, "f.json", "[1]", "[1"),
        ("- " * 20_000 + "1\n", "f.yaml", "- 1", "- [1"),
        ("éа" * 200_000, "f.txt", "nothing", "b"),
    ],
    ids=range(15),
)
def test_a_hostile_edit_ends(content: str, path: str, old: str, new: str) -> None:
    try:
        text = edit_file(OneFile(content), path, [{"old": old, "new": new}]).text
    except HutchError as error:
        text = str(error)
    assert 0 < len(text) < MAX_ANSWER_CHARS


def test_replacing_hundreds_of_thousands_ends() -> None:
    store = OneFile(SAME)
    edited = edit_file(store, "f.txt", [{"old": "a", "new": "bb", "replace_all": True}])
    assert store.written == 1
    assert edited.text.startswith("Modified 'f.txt'. Replaced in 300000 places.")
    assert len(edited.text) + len(edited.diff) < MAX_ANSWER_CHARS


def test_a_patch_with_a_hunk_for_every_line_ends() -> None:
    hunks = "".join(f"@@ -{number + 1} +1 @@\n-line number {number}\n+{number}\n" for number in range(20_000))
    for patch in (
        f"--- a/f.txt\n+++ b/f.txt\n{hunks}",
        f"*** Begin Patch\n*** Update File: f.txt\n{hunks}*** End Patch",
    ):
        store = OneFile(NUMBERED)
        assert len(apply_patch(store, patch).text) < MAX_ANSWER_CHARS
        assert store.written == 1


@pytest.mark.parametrize(
    "patch",
    [
        "*** Begin Patch\n*** Update File: f\n" + "@@ a\n" * 50_000 + "-a\n+b\n*** End Patch",
        pytest.param(  # for `make test`, the tests of placing hunks have one that ends in the same way
            "*** Begin Patch\n*** Update File: f\n" + "@@\n a\n a\n-a\n+b\n" * 20_000 + "*** End Patch",
            marks=pytest.mark.soak,
        ),
        "*** Begin Patch\n*** Update File: f\n@@\n" + "-a\n" * 150_000 + "-b\n+c\n*** End Patch",
        "*** Begin Patch\n" + "".join(f"*** Add File: f{n}\n+x\n" for n in range(50_000)) + "*** End Patch",
        ('diff --git "' + "\\a" * 2_000 + " " * 2_000 + "\n") * 500,
        "<<" + " " * 100_000 + "\n*** Begin Patch",
        "--- a/f\n+++ b/f\n" + "@@ -1,999999999 +1,999999999 @@\n-zz\n" * 50_000,
        "*** Begin Patch\n*** Update File: f\n@@ " + "a" * 1_000_000 + "\n-zzz\n*** End Patch",
    ],
    ids=range(8),
)
def test_a_hostile_patch_ends(patch: str) -> None:
    store = OneFile(SAME)
    with pytest.raises(HutchError) as refused:
        apply_patch(store, patch)
    assert len(str(refused.value)) < MAX_ANSWER_CHARS
    assert store.written == 0


@pytest.mark.parametrize(
    "edits",
    [
        [{"old": "a", "new": "a" * 1000 + "b", "replace_all": True}],
        [
            {"old": "a", "new": "bb" * 10, "replace_all": True},
            {"old": "b", "new": "c" * 500, "replace_all": True},
        ],
        [{"insert_line": 0, "new": "x" * (17 * 1024 * 1024)}],
    ],
    ids=["once", "twice", "inserted"],
)
def test_a_file_does_not_grow_without_end(edits: list[dict[str, object]]) -> None:
    store = OneFile("a\n" * 20_000)
    with pytest.raises(BadRequest, match="more than 16,777,216"):
        edit_file(store, "f", edits)
    assert store.written == 0
