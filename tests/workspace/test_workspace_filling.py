"""Which way a workspace is filled, and why."""

# ruff: noqa: ASYNC110 (what a thread has done is asked for)

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hutch.domain.errors import NotFound, Unavailable
from hutch.workspace.files.tree_copy import can_reflink
from hutch.workspace.lifecycle.shared_base_checkout import Base
from hutch.workspace.lifecycle.workspace_builder import prepare
from hutch.workspace.lifecycle.workspace_filling import (
    SMALL_BYTES,
    SMALL_FILES,
    FillContext,
    Options,
    choose_mode,
    finish_or_stop,
)
from hutch.workspace.lifecycle.workspace_record_and_directories import Home
from tests.forge.repositories import make_repository
from tests.workspace.preparation_fixtures import HOST, make_home, make_project

pytestmark = pytest.mark.anyio


def base(files: int, size: int) -> Base:
    return Base(key="k", source="s", commit="1" * 40, tree="2" * 40, branch=None, bytes=size, files=files)


@pytest.fixture
async def home(tmp_path: Path) -> Home:
    """One where layers have been tried."""
    made = make_home(tmp_path)
    make_project(tmp_path / "project")
    await prepare(made, "tried", tmp_path / "project", git=HOST, options=Options(mode="overlay"))
    return made


async def test_large_is_layered_and_small_is_copied(home: Home, tmp_path: Path) -> None:
    def mode(files: int, size: int, **words: object) -> str:
        filling = FillContext(home, tmp_path, Options(**words), lambda progress: None)
        return choose_mode(filling, base(files, size))[0]

    small = "reflink" if can_reflink(home.data) else "copy"
    assert mode(10, 1000) == small
    assert mode(SMALL_FILES + 1, 1000) == "overlay"
    assert mode(10, SMALL_BYTES + 1) == "overlay"
    assert mode(10, 1000, mode="overlay") == "overlay"
    assert mode(10, 1000, storage="memory") == "overlay"
    assert mode(SMALL_FILES + 1, SMALL_BYTES + 1, mode="copy") == "copy"


async def test_an_unavailable_mode_is_refused_with_a_reason(home: Home, tmp_path: Path) -> None:
    if can_reflink(home.data):
        pytest.skip("this file system shares blocks")
    filling = FillContext(home, tmp_path, Options(mode="reflink"), lambda progress: None)
    with pytest.raises(Unavailable, match=r"workspace\.mode is reflink, .* Set it to auto"):
        choose_mode(filling, base(1, 1))


async def test_the_result_and_the_error_of_long_work_come_back() -> None:
    def fail(check: Callable[[], None]) -> None:
        raise NotFound("Nothing.")

    assert await finish_or_stop(lambda check: check() or 5) == 5
    with pytest.raises(NotFound):
        await finish_or_stop(fail)


async def test_long_work_ends_where_it_asks() -> None:
    turns = []

    def work(check: Callable[[], None]) -> None:
        while True:
            turns.append(1)
            time.sleep(0.01)
            check()

    task = asyncio.ensure_future(finish_or_stop(work))
    while not turns:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    before = len(turns)
    await asyncio.sleep(0.05)
    assert len(turns) == before


PREPARING = """
import asyncio, pathlib, sys
sys.path.insert(0, sys.argv[1])
from tests.workspace.preparation_fixtures import HOST, Home
from hutch.domain.errors import HutchError
from hutch.workspace.lifecycle.workspace_filling import Options
from hutch.workspace.lifecycle.workspace_builder import prepare
home, source = Home(pathlib.Path(sys.argv[2])), pathlib.Path(sys.argv[3])
for mode in ("auto", "overlay"):
    try:
        record = asyncio.run(prepare(home, mode, source, git=HOST, options=Options(mode=mode)))
        print(record.mode, record.mode_reason)
    except HutchError as error:
        print(type(error).__name__, error)
"""


async def test_where_there_are_no_layers_a_copy_is_made_and_the_reason_kept(tmp_path: Path) -> None:
    """On a machine, or in a container, without user namespaces to mount in."""
    home = make_home(tmp_path)
    make_repository(tmp_path / "large", {f"d{number % 30}/f{number}": "x" for number in range(SMALL_FILES)})
    assert (await prepare(home, "before", tmp_path / "large", git=HOST)).mode == "overlay"
    walls = ["bwrap", "--dev-bind", "/", "/", "--unshare-user", "--disable-userns", "--"]
    root = str(Path(__file__).parents[2])
    words = [*walls, sys.executable, "-c", PREPARING, root, str(home.data), str(tmp_path / "large")]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: ASYNC221
    assert ran.returncode == 0, ran.stderr
    auto, overlay = ran.stdout.splitlines()
    assert auto.startswith(("copy large, but there are no layers here: ", "reflink large, but"))
    assert overlay.startswith("Unavailable workspace.mode is overlay. ")
    assert overlay.endswith("Set it to auto to use a copy.")
    assert sorted(path.name for path in home.workspaces.iterdir()) == ["auto", "before"]
    assert len(list((home.workspace("auto") / "tree").rglob("f*"))) == SMALL_FILES
