"""The files that a session starts with are checked before anything is stored."""

import pytest

from hutch.domain.errors import BadRequest, LimitReached
from hutch.domain.user_given_starter_files import MAX_BYTES, MAX_FILES, StarterFile, check_starter_files

EMPTY = StarterFile(b"")


def test_paths_are_normalized() -> None:
    file = StarterFile(b"x", executable=True)
    assert check_starter_files([("./src//a.py", file), ("näme", EMPTY)]) == {"src/a.py": file, "näme": EMPTY}


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/etc/passwd", "does not begin with '/'"),
        ("../x", "'..'"),
        ("a/../../x", "'..'"),
        ("", "missing"),
        ("./", "missing"),
        ("dir/", "is a directory"),
        ("a\0b", "NUL"),
        ("x" * 256, "more than 255 bytes"),
        ("d/" * 2100 + "x", "fewer than 4096 bytes"),
        ("bad\udcff", "not UTF-8"),
        ("bad\ud800", "not UTF-8"),
    ],
)
def test_a_path_that_cannot_be_written_is_refused(path: str, problem: str) -> None:
    with pytest.raises(BadRequest, match=problem.replace(".", r"\.")):
        check_starter_files([(path, EMPTY)])


def test_one_path_has_one_file() -> None:
    with pytest.raises(BadRequest, match="Two starter files have the path 'a/b'"):
        check_starter_files([("a/b", EMPTY), ("a//b", EMPTY)])
    for pair in (["a", "a/b/c"], ["a/b/c", "a"]):
        with pytest.raises(BadRequest, match="'a' cannot be a file and the directory of 'a/b/c'"):
            check_starter_files([(path, EMPTY) for path in pair])


def test_their_number_and_size_are_limited() -> None:
    most = [(f"f{number}", EMPTY) for number in range(MAX_FILES)]
    assert len(check_starter_files(most)) == MAX_FILES
    with pytest.raises(LimitReached, match="at most 1000 files"):
        check_starter_files([*most, ("one more", EMPTY)])
    half = StarterFile(bytes(MAX_BYTES // 2))
    assert len(check_starter_files([("a", half), ("b", half)])) == 2
    with pytest.raises(LimitReached, match="at most 8 MiB together"):
        check_starter_files([("a", half), ("b", half), ("c", StarterFile(b"x"))])
