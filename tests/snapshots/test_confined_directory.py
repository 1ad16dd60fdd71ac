"""A directory that nothing leads out of."""

import os
import stat
import threading
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, Conflict, Denied, NotFound
from hutch.snapshots.confined_directory import Directory


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory beside the workspace that must never be touched."""
    place = tmp_path / "outside"
    place.mkdir()
    (place / "secret").write_text("secret")
    return place


@pytest.fixture
def tree(tmp_path: Path, outside: Path) -> Path:
    place = tmp_path / "tree"
    (place / "src").mkdir(parents=True)
    (place / "src/main.py").write_text("print()\n")
    return place


def read(directory: Directory, path: str) -> bytes:
    with os.fdopen(directory.open(path, os.O_RDONLY), "rb") as file:
        return file.read()


def test_links_inside_are_followed(tree: Path) -> None:
    (tree / "entry").symlink_to("src/main.py")
    (tree / "src/up").symlink_to("../src")
    with Directory.at(tree) as directory:
        assert read(directory, "entry") == b"print()\n"
        assert read(directory, "src/up/up/main.py") == b"print()\n"
        assert read(directory, "src/../src/main.py") == b"print()\n"


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret",
        "/etc/passwd",
        "src/../../outside/secret",
        "absolute",
        "relative",
        "through/secret",
    ],
)
def test_nothing_leads_out(tree: Path, outside: Path, path: str) -> None:
    (tree / "absolute").symlink_to(outside / "secret")
    (tree / "relative").symlink_to("../outside/secret")
    (tree / "through").symlink_to(outside)
    with Directory.at(tree) as directory:
        with pytest.raises(Denied, match="leads out of the workspace"):
            directory.open(path, os.O_RDONLY)
        if path not in ("absolute", "relative"):  # which can be removed themselves, being inside
            with pytest.raises((Denied, NotFound)):
                directory.remove(path)
            with pytest.raises((Denied, BadRequest)):
                directory.make_directory(path)
            with pytest.raises(Denied):
                directory.rename("src/main.py", path, replace=True)
    assert (outside / "secret").read_text() == "secret"
    assert [found.name for found in outside.iterdir()] == ["secret"]


def test_links_of_proc_are_not_followed(tree: Path) -> None:
    (tree / "magic").symlink_to("/proc/self/root")
    with Directory(os.open("/proc/self", os.O_PATH)) as proc, pytest.raises(Denied):
        proc.open("root/etc/passwd", os.O_RDONLY)
    with Directory.at(tree) as directory, pytest.raises(Denied):
        directory.open("magic/etc/passwd", os.O_RDONLY)


def test_a_swapped_directory_does_not_lead_outside(tree: Path, outside: Path) -> None:
    """While another process swaps a directory for a link, we write into the directory or are refused."""
    stop = threading.Event()

    (tree / "link").symlink_to(outside)
    (tree / "real").mkdir()

    def swap() -> None:
        while not stop.is_set():
            for name in ("real", "link"):
                (tree / name).rename(tree / "door")
                (tree / "door").rename(tree / name)

    swapper = threading.Thread(target=swap)
    swapper.start()
    written = refused = 0
    try:
        with Directory.at(tree) as directory:
            while written < 300 or refused < 300:
                try:
                    os.close(directory.open("door/file", os.O_WRONLY | os.O_CREAT))
                    written += 1
                    directory.remove("door/file")
                except (Denied, NotFound):
                    refused += 1
    finally:
        stop.set()
        swapper.join()
    assert [found.name for found in outside.iterdir()] == ["secret"]


def test_a_tree_of_any_depth_and_mode_is_removed(tree: Path) -> None:
    here = os.open(tree, os.O_RDONLY)
    for level in range(3500):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(os.open("\udcff\n", os.O_CREAT | os.O_WRONLY, dir_fd=below))
        if level % 500 == 7:
            os.fchmod(here, 0)
        os.close(here)
        here = below
    os.close(here)
    with Directory.at(tree) as directory:
        directory.remove("d")
        assert [found.name for found in tree.iterdir()] == ["src"]


def test_removing_a_link_spares_its_target(tree: Path, outside: Path) -> None:
    (tree / "src/link").symlink_to(outside)
    with Directory.at(tree) as directory:
        directory.remove("src")
    assert [found.name for found in tree.iterdir()] == []
    assert [found.name for found in outside.iterdir()] == ["secret"]


def test_renaming_replaces_only_on_request(tree: Path) -> None:
    (tree / "other").write_text("other")
    with Directory.at(tree) as directory:
        with pytest.raises(Conflict, match="'other' exists already"):
            directory.rename("src/main.py", "other", replace=False)
        directory.rename("src/main.py", "other", replace=True)
        assert read(directory, "other") == b"print()\n"


def test_a_fifo_does_not_hold_us(tree: Path) -> None:
    os.mkfifo(tree / "fifo")
    with Directory.at(tree) as directory:
        fd = directory.open("fifo", os.O_RDONLY)
        assert stat.S_ISFIFO(os.fstat(fd).st_mode)
        os.close(fd)


def test_errors_name_the_path_and_the_remedy(tree: Path) -> None:
    with Directory.at(tree) as directory:
        for path, kind, words in [
            ("nothing", NotFound, "'nothing' does not exist"),
            ("src/main.py/x", BadRequest, "not a directory"),
            ("a\0b", BadRequest, "NUL"),
            ("x" * 300, BadRequest, "longer than a path can be"),
        ]:
            with pytest.raises(kind, match=words):
                directory.open(path, os.O_RDONLY)
        with pytest.raises(BadRequest, match="names no file"):
            directory.remove("")
        with pytest.raises(BadRequest, match="names no file"):
            directory.remove("a\0b")
