"""The files after a patch, before they are written."""

from collections.abc import Sequence
from hashlib import sha256

import pytest

from hutch.domain.errors import Conflict, NotFound
from hutch.edit.file_operation_types import Delete, FileChange, Move, Operation, Write
from hutch.edit.in_memory_patch import Draft, clean
from hutch.edit.patch_operation_types import FileOperation, Hunk


class Recorded:
    """Files in memory that record changes."""

    def __init__(self, **files: bytes) -> None:
        self.files = files
        self.operations: list[Operation] = []

    def read_bytes(self, path: str) -> tuple[bytes, int]:
        if path not in self.files:
            raise NotFound(path)
        return self.files[path], 0o100640

    def change(self, operations: Sequence[Operation]) -> list[FileChange]:
        self.operations += operations
        return []


def done(files: Recorded, *operations: FileOperation) -> list[Operation]:
    draft = Draft(files)
    for operation in operations:
        draft.do(operation)
    draft.finish()
    return files.operations


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


A_TO_B = Hunk((("-", "a"), ("+", "b")))


def test_deletes_and_moves_go_before_writes() -> None:
    files = Recorded(one=b"a\n", two=b"2\n", three=b"3\n")
    assert done(
        files,
        FileOperation("update", "one", hunks=(A_TO_B,)),
        FileOperation("add", "three/x", content="x\n"),
        FileOperation("update", "two", move_to="four"),
        FileOperation("delete", "three"),
    ) == [
        Delete("three", digest(b"3\n")),
        Move("two", "four", None, digest(b"2\n")),
        Write("one", b"b\n", None, digest(b"a\n")),
        Write("three/x", b"x\n", None, None),
    ]


def test_a_move_has_content_mode_and_the_replaced_hash() -> None:
    files = Recorded(one=b"a\n", two=b"2\n")
    operation = FileOperation("update", "one", move_to="two", hunks=(A_TO_B,), mode=0o755)
    assert done(files, operation) == [Move("one", "two", b"b\n", digest(b"a\n"), digest(b"2\n"), 0o750)]


def test_modes_change_only_the_execute_bits() -> None:
    assert done(Recorded(f=b"x"), FileOperation("update", "f", mode=0o755)) == [
        Write("f", b"x", 0o750, digest(b"x"))
    ]
    assert done(Recorded(f=b"x"), FileOperation("update", "f", mode=0o644)) == []
    assert done(Recorded(), FileOperation("add", "f", content="x", mode=0o644)) == [
        Write("f", b"x", None, None)
    ]
    assert done(Recorded(), FileOperation("add", "f", content="x", mode=0o755)) == [
        Write("f", b"x", 0o755, None)
    ]


def test_a_patch_without_effect_writes_nothing() -> None:
    back = Hunk((("-", "b"), ("+", "a")))
    assert (
        done(Recorded(f=b"a\n"), *(FileOperation("update", "f", hunks=(hunk,)) for hunk in (A_TO_B, back)))
        == []
    )
    assert (
        done(Recorded(f=b"a\n"), FileOperation("delete", "f"), FileOperation("add", "f", content="a\n")) == []
    )
    assert done(Recorded(), FileOperation("add", "f", content="a\n"), FileOperation("delete", "f")) == []


def test_a_copy_must_not_replace() -> None:
    files = Recorded(one=b"a\n", two=b"2\n")
    with pytest.raises(Conflict, match="'two' already exists, so 'one' cannot be copied there"):
        done(files, FileOperation("update", "one", move_to="two", copy=True))
    assert done(files, FileOperation("update", "one", move_to="three", copy=True)) == [
        Write("three", b"a\n", 0o640, None)
    ]


@pytest.mark.parametrize(
    ("path", "cleaned"),
    [("./a//b/./c", "a/b/c"), ("a/../b", "a/../b"), ("/etc/passwd", "/etc/passwd"), ("a/", "a")],
)
def test_one_file_has_one_name(path: str, cleaned: str) -> None:
    assert clean(path) == cleaned
