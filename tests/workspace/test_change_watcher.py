"""A watcher says that something has changed, wherever in the tree; what lies outside is not watched."""

import asyncio
import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from hutch.snapshots.confined_directory import Directory
from hutch.workspace.files.change_watcher import ChangeWatcher
from tests.deadline import DEADLINE_S
from tests.workspace.file_change_helpers import make_place


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return make_place(tmp_path)


@pytest.fixture
def watcher(place: Path) -> Iterator[ChangeWatcher]:
    with Directory.at(place) as tree:
        made = ChangeWatcher(tree)
    made.arm()
    yield made
    made.close()


def signals(watcher: ChangeWatcher, *, timeout_s: float = 0) -> bool:
    return bool(select.select([watcher.fd], [], [], timeout_s)[0])


def armed_again(watcher: ChangeWatcher) -> None:
    watcher.arm()
    assert not signals(watcher)


@pytest.mark.parametrize(
    "script",
    [
        "echo x >> a",
        "mkdir new",
        "rm b",
        "mv src/c src/moved",
        "chmod 700 src/deep/d",
        "echo x > src/deep/new",
        "ln -s /etc/passwd src/link",
    ],
)
@pytest.mark.anyio
async def test_every_kind_of_change_signals(watcher: ChangeWatcher, place: Path, script: str) -> None:
    assert not signals(watcher)
    process = await asyncio.create_subprocess_shell(script, cwd=place)
    assert await process.wait() == 0
    assert signals(watcher, timeout_s=DEADLINE_S)


def test_a_burst_signals_once_until_it_is_armed_again(watcher: ChangeWatcher, place: Path) -> None:
    for number in range(100):
        (place / f"f{number}").touch()
    assert signals(watcher)
    assert len(os.read(watcher.fd, 1 << 16)) < 200  # one report, and that the watch is gone
    assert not signals(watcher)


def test_new_directories_are_watched(watcher: ChangeWatcher, place: Path) -> None:
    (place / "d/e/f").mkdir(parents=True)
    assert signals(watcher)
    armed_again(watcher)
    (place / "d/e/f/file").touch()
    assert signals(watcher)
    armed_again(watcher)
    (place / "d").rename(place / "moved")
    assert signals(watcher)
    armed_again(watcher)
    (place / "moved/e/f/file").write_text("x")
    assert signals(watcher)
    armed_again(watcher)
    (place / "moved/e/f/file").unlink()
    assert signals(watcher)


def test_links_lead_nowhere(watcher: ChangeWatcher, place: Path, tmp_path: Path) -> None:
    (tmp_path / "outside/deep").mkdir()
    (place / "out").symlink_to(tmp_path / "outside")
    armed_again(watcher)
    (tmp_path / "outside/deep/private").touch()
    (tmp_path / "outside/secret").write_text("changed")
    assert not signals(watcher)


def test_git_is_not_watched(watcher: ChangeWatcher, place: Path) -> None:
    (place / "sub/.git").mkdir(parents=True)
    armed_again(watcher)
    (place / "sub/.git/index").touch()
    assert not signals(watcher)


def test_without_enough_watches_it_says_so(place: Path) -> None:
    with Directory.at(place) as tree:
        few = ChangeWatcher(tree, max_watches=2)
    few.arm()
    assert not few.is_complete
    few.close()


def test_a_removed_and_recreated_directory_is_watched(watcher: ChangeWatcher, place: Path) -> None:
    (place / "src/deep/d").unlink()
    (place / "src/deep").rmdir()
    armed_again(watcher)
    (place / "src/deep").mkdir()
    assert signals(watcher)
    armed_again(watcher)
    (place / "src/deep/again").touch()
    assert signals(watcher)


def test_a_closed_watcher_watches_nothing(watcher: ChangeWatcher, place: Path) -> None:
    watcher.close()
    watcher.arm()
    assert watcher.fd == -1
