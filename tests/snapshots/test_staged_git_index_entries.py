"""Two indexes of git are equal if the same files are staged."""

import os
import subprocess
from pathlib import Path

import pytest

from hutch.snapshots.staged_git_index_entries import staged_entries


def git(place: Path, *words: str) -> str:
    settings = ["-c", "user.name=T", "-c", "user.email=t@example.com"]
    done = subprocess.run(["git", "-C", str(place), *settings, *words], check=True, capture_output=True)
    return done.stdout.decode()


def index(place: Path) -> bytes:
    return (place / ".git/index").read_bytes()


@pytest.fixture(params=["2", "4"])
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "index.version", request.param)
    for name in ("a.txt", "src/main.py", "src/mainly.py", "src/" + "x" * 200):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    git(tmp_path, "add", ".")
    return tmp_path


def test_all_entries_are_read(place: Path) -> None:
    listed = [line.split(None, 3) for line in git(place, "ls-files", "--stage").splitlines()]
    found = staged_entries(index(place))
    assert found is not None
    assert [(f"{mode:o}", name.hex(), path.decode()) for path, mode, name, _ in found] == [
        (mode, name, path) for mode, name, _, path in listed
    ]


def test_a_refresh_changes_no_entry(place: Path) -> None:
    before = index(place)
    os.utime(place / "a.txt", (1, 1))
    git(place, "status")
    assert index(place) != before
    assert staged_entries(index(place)) == staged_entries(before)


@pytest.mark.parametrize("words", [["rm", "--cached", "a.txt"], ["update-index", "--chmod=+x", "a.txt"]])
def test_a_staged_change_is_seen(place: Path, words: list[str]) -> None:
    before = index(place)
    git(place, *words)
    assert staged_entries(index(place)) != staged_entries(before)


def test_an_intent_to_add_is_seen(place: Path) -> None:
    before = staged_entries(index(place))
    (place / "new.txt").write_text("new")
    git(place, "add", "-N", "new.txt")
    found = staged_entries(index(place))
    assert found is not None and before is not None
    assert {path for path, *_ in found} - {path for path, *_ in before} == {b"new.txt"}


@pytest.mark.parametrize(
    "data", [b"", b"DIRC", b"DIRC\0\0\0\2\0\0\0\5", b"DIRC\0\0\0\4\0\0\0\1" + b"\xff" * 80]
)
def test_other_data_is_no_index(data: bytes) -> None:
    assert staged_entries(data) is None
