"""Measuring a tree that does not want to be measured."""

import os
import time
from pathlib import Path

from hutch.jail.growth import DEEPEST, Growth, measure


def measured(directory: Path) -> tuple[int, int, bool, bool]:
    fd = os.open(directory, os.O_RDONLY)
    try:
        seen = measure(fd)
        assert measure(fd) == seen  # the descriptor can be used again
        return seen.bytes, seen.files, seen.whole, seen.too_deep
    finally:
        os.close(fd)


def test_files_count_by_the_blocks_they_take(tmp_path: Path) -> None:
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


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/usr")
    assert measured(tmp_path)[1] == 1


def test_a_bottomless_tree_is_called_too_deep(tmp_path: Path) -> None:
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(DEEPEST + 300):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    assert measured(tmp_path)[2:] == (True, True)
    fd = os.open(tmp_path, os.O_RDONLY)
    growth = Growth(fd, most_bytes=1000, most_files=1000)
    growth.grown()
    os.close(fd)


def test_growth_is_noticed_by_how_full_the_disk_is(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    growth = Growth(fd, most_bytes=10_000_000, most_files=1000)
    assert growth.grown() == (0, 0)
    with (tmp_path / "big").open("wb") as file:
        file.write(os.urandom(12_000_000))
        file.flush()
        os.fsync(file.fileno())
    grown, files = growth.grown()
    os.close(fd)
    assert (grown > 10_000_000, files) == (True, 1)


def test_growth_is_noticed_soon_though_others_free_as_much(tmp_path: Path) -> None:
    (tmp_path / "others").write_bytes(os.urandom(12_000_000))
    (tmp_path / "own").mkdir()
    fd = os.open(tmp_path / "own", os.O_RDONLY)
    growth = Growth(fd, most_bytes=10_000_000, most_files=1000)
    assert growth.grown() == (0, 0)
    (tmp_path / "others").unlink()
    (tmp_path / "own" / "big").write_bytes(os.urandom(12_000_000))
    time.sleep(1.1)
    grown, files = growth.grown()
    os.close(fd)
    assert (grown > 10_000_000, files) == (True, 1)
