"""The calls that a change is made of."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hutch.workspace.files.file_change_syscalls import BUFFER_BYTES, Syscalls, hash_descriptor


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def test_a_rename_never_replaces(fd: int, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    with pytest.raises(FileExistsError):
        Syscalls().rename(fd, "a", fd, "b")
    Syscalls().rename(fd, "a", fd, "c")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"b": b"b", "c": b"a"}


def test_two_names_change_places(fd: int, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").mkdir()
    Syscalls().exchange(fd, "a", fd, "b")
    assert (tmp_path / "a").is_dir()
    assert (tmp_path / "b").read_bytes() == b"a"
    with pytest.raises(FileNotFoundError):
        Syscalls().exchange(fd, "a", fd, "none")


def test_a_file_is_made_anew_or_not_at_all(fd: int, tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    (tmp_path / "link").symlink_to("elsewhere")
    for name in ("there", "link"):
        with pytest.raises(FileExistsError):
            Syscalls().make_file(fd, name)
    made = Syscalls().make_file(fd, "new")
    Syscalls().write(made, b"x" * 3_000_000)
    os.close(made)
    assert (tmp_path / "new").stat().st_size == 3_000_000
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600


def test_times_are_those_of_the_very_directory_held(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    held = os.open(tmp_path / "closed", os.O_PATH)
    Syscalls().set_times(held, (1, 2))
    os.close(held)
    assert (tmp_path / "closed").stat().st_mtime_ns == 2


def test_a_hash_is_of_the_whole_file_wherever_it_was_read_to(fd: int, tmp_path: Path) -> None:
    data = os.urandom(BUFFER_BYTES + 7)
    (tmp_path / "file").write_bytes(data)
    with (tmp_path / "file").open("rb") as file:
        file.read(10)
        assert hash_descriptor(file.fileno()) == hashlib.sha256(data).hexdigest()
    assert Syscalls().digest(fd, "file") == hashlib.sha256(data).hexdigest()
    (tmp_path / "link").symlink_to("file")
    with pytest.raises(OSError, match="symbolic"):
        Syscalls().digest(fd, "link")
