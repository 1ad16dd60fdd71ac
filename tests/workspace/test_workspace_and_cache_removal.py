"""A removed workspace is gone, whatever its state, and the rest after a crash is found."""

# ruff: noqa: ASYNC240 (files of a test block nobody)

import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.domain.user_given_starter_files import StarterFile
from hutch.jail.jail_startup import open_jail
from hutch.system.file_lock import try_lock
from hutch.workspace.lifecycle.shared_base_checkout import find_base
from hutch.workspace.lifecycle.workspace_and_cache_removal import (
    NEW,
    TRASH,
    discard,
    remove_leftovers,
    remove_unused,
    remove_workspace,
    temporary_name,
)
from hutch.workspace.lifecycle.workspace_builder import prepare
from hutch.workspace.lifecycle.workspace_filling import Options
from hutch.workspace.lifecycle.workspace_mount import open_workspace
from hutch.workspace.lifecycle.workspace_record_and_directories import Home
from tests.forked_command import PLAIN, run
from tests.workspace.preparation_fixtures import COPY, HOST, OVERLAY, make_home, make_project

pytestmark = pytest.mark.anyio

RUIN = """
import os
os.mkdir("locked")
open("locked/file", "w").close()
os.chmod("locked", 0)
os.mkdir("deep")
os.makedirs("deep/er/est")
for path in ("deep/er/est", "deep/er", "deep"):
    os.chmod(path, 0)
for name in (b"\\xff\\xfe", b"new\\nline", b" ", b"-rf", b"..." , b"x" * 255):
    os.mkdir(name)
    open(os.path.join(name, name), "w").close()
os.mkfifo("fifo")
os.symlink("loop", "loop")
os.symlink("/etc", "out")
"""


def dig(top: int, levels: int) -> None:
    """Directories in directories, by descriptor: no path would reach that far."""
    here = os.dup(top)
    for _ in range(levels):
        os.mkdir("d" * 20, dir_fd=here)
        below = os.open("d" * 20, os.O_PATH | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    make_project(tmp_path / "project")
    made = make_home(tmp_path)
    yield made
    discard(made.data)  # others cannot remove what a failed test leaves here


@pytest.mark.parametrize("options", [COPY, OVERLAY], ids=["copy", "overlay"])
async def test_nothing_a_jail_does_keeps_a_workspace_from_going(
    home: Home, tmp_path: Path, options: Options
) -> None:
    await prepare(home, "w", tmp_path / "project", git=HOST, options=options)
    opened = await open_workspace(home, "w")
    async with open_jail(opened.place) as jail:
        ran = await jail.run(["python3", "-c", RUIN])
        assert ran.exit_code == 0, ran.stderr
    dig(opened.directory.fd, 3200)  # a jail would be stopped at some depth, but not at once
    opened.close()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("")
    await remove_workspace(home, "w")
    assert list(home.workspaces.iterdir()) == []
    assert (outside / "kept").exists() and Path("/etc/passwd").exists()
    await prepare(home, "w", tmp_path / "project", git=HOST, options=options)


async def test_one_that_is_open_stays(home: Home, tmp_path: Path) -> None:
    await prepare(home, "w", tmp_path / "project", git=HOST)
    opened = await open_workspace(home, "w")
    with pytest.raises(Conflict, match="The workspace 'w' is open"):
        await remove_workspace(home, "w")
    opened.close()
    await remove_workspace(home, "w")
    with pytest.raises(NotFound, match="There is no workspace 'w'"):
        await remove_workspace(home, "w")
    with pytest.raises(BadRequest):
        await remove_workspace(home, "../w")


REMOVING = """
import asyncio, os, pathlib, sys, threading, time
from hutch.workspace.lifecycle.workspace_record_and_directories import Home
from hutch.workspace.lifecycle.workspace_and_cache_removal import remove_workspace
home = Home(pathlib.Path(sys.argv[1]))
def watch():
    while (home.workspaces / "w").exists():
        pass
    os.kill(os.getpid(), 9)
threading.Thread(target=watch, daemon=True).start()
asyncio.run(remove_workspace(home, "w"))
time.sleep(10)
"""


async def test_what_a_killed_one_left_is_finished(home: Home) -> None:
    await prepare(
        home, "w", {f"d{number % 50}/f{number}": StarterFile(b"x") for number in range(1000)}, git=HOST
    )
    ran = run([sys.executable, "-c", REMOVING, str(home.data)], env=PLAIN)
    assert ran.returncode == -9
    assert home.records() == []
    remove_leftovers(home)
    assert list(home.workspaces.iterdir()) == []


async def test_what_the_living_are_at_is_not_swept(home: Home) -> None:
    mine = home.workspaces / temporary_name("x")
    mine.mkdir()
    for name in (f"{NEW}-1.0-ab-y", f"{TRASH}-999999999.5-ab-z"):
        (home.bases / name / "tree").mkdir(parents=True)
    (home.workspaces / ".unknown").mkdir()
    assert len(remove_leftovers(home)) == 2
    assert mine.exists() and (home.workspaces / ".unknown").exists()


async def test_bases_go_by_age_and_by_size_and_never_under_a_workspace(home: Home, tmp_path: Path) -> None:
    records = []
    for number in range(4):
        source = tmp_path / f"project-{number}"
        make_project(source)
        mode = OVERLAY if number == 0 else COPY
        records.append(await prepare(home, f"w{number}", source, git=HOST, options=mode))
    for number in (2, 3):
        await remove_workspace(home, f"w{number}")
    bases = [record.base for record in records]
    day = 86_400
    for number, days in ((0, 100), (1, 100), (2, 50), (3, 2)):
        used = time.time() - days * day
        os.utime(home.bases / f"{bases[number]}.lock", (used, used))
    for lock in home.repositories.glob("*.lock"):
        os.utime(lock, (time.time(), time.time()))
    assert remove_unused(home, max_bytes=1 << 40, max_days=30) == [bases[2]]
    assert remove_unused(home, max_bytes=1 << 40, max_days=30) == []
    assert remove_unused(home, max_bytes=0, max_days=30) == [bases[3]]
    left = sorted(path.name for path in home.bases.iterdir() if path.is_dir())
    assert left == sorted(bases[:2])  # old, and more than nothing, but stood upon
    for number in (0, 1):
        opened = await open_workspace(home, f"w{number}")
        assert opened.directory.exists("README.md")
        opened.close()


async def test_mirrors_go_too_and_come_again(home: Home, tmp_path: Path) -> None:
    await prepare(home, "w", tmp_path / "project", git=HOST)
    for lock in home.repositories.glob("*.lock"):
        os.utime(lock, (1, 1))
    removed = remove_unused(home, max_bytes=1 << 40, max_days=30)
    assert [name for name in removed if name.endswith(".git")] == removed and len(removed) == 1
    assert list(home.repositories.iterdir()) == []
    opened = await open_workspace(home, "w")
    async with open_jail(opened.place) as jail:  # what was linked to is still there
        assert (await jail.run(["git", "log", "--oneline"])).exit_code == 0
    opened.close()


async def test_what_is_in_use_at_this_moment_stays(home: Home, tmp_path: Path) -> None:
    record = await prepare(home, "w", tmp_path / "project", git=HOST)
    await remove_workspace(home, "w")
    lock = home.bases / f"{record.base}.lock"
    os.utime(lock, (1, 1))
    held = try_lock(lock, shared=True)
    assert record.base not in remove_unused(home, max_bytes=1 << 40, max_days=30)
    os.close(held)
    assert find_base(home, record.base) is not None
    os.utime(lock, (1, 1))
    assert record.base in remove_unused(home, max_bytes=1 << 40, max_days=30)
    assert find_base(home, record.base) is None


def test_discarding_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    discard(tmp_path / "gone")
    (tmp_path / "file").write_text("")
    discard(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []
    shutil.rmtree(tmp_path)
