"""Measuring a tree that changes meanwhile."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.jail.limits.disk_growth import MAX_DEPTH, Growth, measure
from hutch.jail.limits.unlinked_files import UnlinkedFiles, may_hold_files


def measured(directory: Path) -> tuple[int, int, bool, bool]:
    fd = os.open(directory, os.O_RDONLY)
    try:
        seen = measure(fd)
        time.sleep(0.02)  # the clock of files ticks slowly
        assert measure(fd) == replace(seen, steady=True)  # the descriptor can be used again
        return seen.bytes, seen.files, seen.whole, seen.too_deep
    finally:
        os.close(fd)


def test_files_count_by_their_blocks(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 10**9)
    size, files, whole, too_deep = measured(tmp_path)
    assert 100_000 <= size < 120_000
    assert (files, whole, too_deep) == (2, True, False)


def test_a_file_with_two_names_counts_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    os.link(tmp_path / "a", tmp_path / "b")
    assert measured(tmp_path)[0] < 120_000


def test_files_with_names_outside_are_counted_on_request(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    for name in ("inside", "out", "also-out"):
        (tmp_path / "own" / name).touch()
    os.link(tmp_path / "own" / "inside", tmp_path / "own" / "twin")
    os.link(tmp_path / "own" / "out", tmp_path / "out")
    os.link(tmp_path / "own" / "also-out", tmp_path / "also-out")
    os.link(tmp_path / "own" / "also-out", tmp_path / "own" / "with-a-twin")
    fd = os.open(tmp_path / "own", os.O_RDONLY)
    assert (measure(fd, links=True).linked_outside, measure(fd).linked_outside) == (2, 0)
    os.close(fd)


def test_a_walk_detects_changes_after_its_start(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"d{number}").mkdir()
    fd = os.open(tmp_path, os.O_RDONLY)

    def is_steady_just_after_a_change() -> bool:
        (tmp_path / "d0").rename(tmp_path / "d1" / "d0")
        (tmp_path / "d1" / "d0").rename(tmp_path / "d0")
        os.utime(tmp_path, (0, 0))  # as a process that hides it would
        return measure(fd).steady

    # A file's time is that of a slow clock. On a busy machine it may tick between the change and the walk.
    assert not all(is_steady_just_after_a_change() for _ in range(1000))
    time.sleep(0.02)
    assert measure(fd).steady
    os.close(fd)


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/usr")
    assert measured(tmp_path)[1] == 1


def test_a_bottomless_tree_is_called_too_deep(tmp_path: Path) -> None:
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(MAX_DEPTH + 300):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    assert measured(tmp_path)[2:] == (False, True)
    fd = os.open(tmp_path, os.O_RDONLY)
    growth = Growth(fd, max_bytes=1000, max_files=1000)
    growth.grown()
    growth.measured()
    os.close(fd)
    assert growth.is_too_deep


def noticed(growth: Growth) -> None:
    """Assert that the growth is found in the end: others use the disk as well."""
    for _ in range(1000):
        grown, files = growth.grown()
        if grown > 10_000_000:
            break
        time.sleep(0.02)
    assert (grown > 10_000_000, files) == (True, 1)


def test_growth_is_noticed_by_how_full_the_disk_is(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    growth = Growth(fd, max_bytes=10_000_000, max_files=1000)
    assert growth.grown() == (0, 0)
    with (tmp_path / "big").open("wb") as file:
        file.write(os.urandom(12_000_000))
        file.flush()
        os.fsync(file.fileno())
    noticed(growth)
    os.close(fd)


def test_growth_is_noticed_soon_though_others_free_as_much(tmp_path: Path) -> None:
    (tmp_path / "others").write_bytes(os.urandom(12_000_000))
    (tmp_path / "own").mkdir()
    fd = os.open(tmp_path / "own", os.O_RDONLY)
    growth = Growth(fd, max_bytes=10_000_000, max_files=1000)
    assert growth.grown() == (0, 0)
    (tmp_path / "others").unlink()
    (tmp_path / "own" / "big").write_bytes(os.urandom(12_000_000))
    noticed(growth)
    os.close(fd)


def test_a_briefly_hidden_process_is_not_blamed_for_what_others_write(tmp_path: Path) -> None:
    def poll(*, always: bool) -> int:
        """The growth of an empty directory when something in it cannot be inspected."""
        looks = 0

        def hidden() -> UnlinkedFiles:
            nonlocal looks
            looks += 1
            return UnlinkedFiles(0, maybe_more=always or looks == 1)

        (tmp_path / "own").mkdir(exist_ok=True)
        fd = os.open(tmp_path / "own", os.O_RDONLY)
        growth = Growth(fd, max_bytes=1_000_000, max_files=1000, find_unlinked_files=hidden)
        growth.grown()
        with (tmp_path / "others").open("wb") as file:
            file.write(bytes(50_000_000))
        grown = growth.measured()[0]
        (tmp_path / "others").unlink()
        os.close(fd)
        return grown

    assert poll(always=False) == 0
    assert any(poll(always=True) > 1_000_000 for _ in range(100))  # others may free as much just then


def test_a_walk_is_owed_until_it_is_made(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    growth = Growth(fd, max_bytes=10**12, max_files=10**9)
    growth.grown()
    assert not growth.is_outdated  # nothing was written yet
    (tmp_path / "small").write_bytes(b"x")
    assert (growth.grown(), growth.is_outdated) == ((0, 0), True)
    assert growth.measured()[1] == 1
    os.close(fd)


def test_a_jail_that_moves_files_is_measured_frozen_and_not_blamed_for_what_others_write(
    tmp_path: Path,
) -> None:
    (tmp_path / "own").mkdir()
    script = "import os\nwhile True: os.close(os.open('moving', os.O_CREAT)); os.unlink('moving')"
    mover = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path / "own")
    stops = 0

    @contextmanager
    def freeze() -> Iterator[bool]:
        nonlocal stops
        stops += 1
        mover.send_signal(signal.SIGSTOP)
        yield True
        mover.send_signal(signal.SIGCONT)

    fd = os.open(tmp_path / "own", os.O_RDONLY)
    growth = Growth(fd, max_bytes=1_000_000, max_files=1000, freeze=freeze)
    growth.grown()
    try:
        for number in range(1000):  # others may free as much just then
            (tmp_path / f"others-{number}").write_bytes(os.urandom(2_000_000))  # not in the tree
            assert growth.measured()[0] < 1_000_000
            if stops:
                break
        assert stops
    finally:
        mover.kill()
        mover.wait()
        os.close(fd)


def test_files_that_move_behind_the_walk_are_found_though_others_free_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hutch.jail.limits.disk_growth.STEADY_INTERVAL_S", 0.5)
    for name in ("own", "elsewhere"):
        (tmp_path / name).mkdir()
    with (tmp_path / "others").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 1 << 29)
    script = "import os\nwhile True: os.close(os.open('moving', os.O_CREAT)); os.unlink('moving')"
    mover = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path / "own")

    @contextmanager
    def freeze() -> Iterator[bool]:
        """Only an unseen walk finds the files: they are moved away before every other walk."""
        mover.send_signal(signal.SIGSTOP)
        (tmp_path / "elsewhere").rename(tmp_path / "own" / "hoard")
        yield True
        (tmp_path / "own" / "hoard").rename(tmp_path / "elsewhere")
        mover.send_signal(signal.SIGCONT)

    fd = os.open(tmp_path / "own", os.O_RDONLY)
    try:
        growth = Growth(fd, max_bytes=10_000_000, max_files=1000, freeze=freeze)
        growth.grown()
        (tmp_path / "others").unlink()
        (tmp_path / "elsewhere" / "big").write_bytes(os.urandom(30_000_000))
        deadline = time.monotonic() + 60
        while growth.grown()[0] < 10_000_000:
            assert time.monotonic() < deadline, "no walk met the files"
            time.sleep(0.02)
    finally:
        mover.kill()
        mover.wait()
        os.close(fd)


def test_only_unix_sockets_carry_files() -> None:
    # A server in a jail is not to blame for what others write to the same disk.
    def info(opened: socket.socket) -> bytes:
        return Path(f"/proc/self/fdinfo/{opened.fileno()}").read_bytes()

    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not may_hold_files(info(server))
    one, other = socket.socketpair()
    with one, other, Path("/dev/null").open() as file:
        assert not may_hold_files(info(other))
        socket.send_fds(one, [b"x"], [file.fileno()])
        assert may_hold_files(info(other))
    assert may_hold_files(b"")  # it could not be read
