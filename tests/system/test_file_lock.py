"""A lock is one holder's, or several readers', and goes with them."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hutch.system.file_lock import locked_async, try_lock
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio

HOLDING = """
import pathlib, sys, time
from hutch.system.file_lock import try_lock
assert try_lock(pathlib.Path(sys.argv[1])) is not None
print("held", flush=True)
time.sleep(60)
"""


async def test_one_holder_or_several_readers(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first, second = try_lock(path, shared=True), try_lock(path, shared=True)
    assert first is not None and second is not None and try_lock(path) is None
    os.close(first)
    os.close(second)
    alone = try_lock(path)
    assert alone is not None and try_lock(path) is None and try_lock(path, shared=True) is None
    os.close(alone)


async def test_a_waiter_gets_the_lock_when_its_holder_releases_it(tmp_path: Path) -> None:
    order = []

    async def work(name: str) -> None:
        async with locked_async(tmp_path / "lock"):
            order.append(f"{name} in")
            await asyncio.sleep(0.05)
            order.append(f"{name} out")

    await asyncio.gather(*(work(name) for name in "abc"))
    assert [entry.split()[1] for entry in order] == ["in", "out"] * 3


async def test_waiting_can_be_cancelled(tmp_path: Path) -> None:
    held = try_lock(tmp_path / "lock")

    async def wait() -> None:
        async with locked_async(tmp_path / "lock"):
            pass

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await wait()
    os.close(held)
    await wait()


async def test_a_holder_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    words = [sys.executable, "-c", HOLDING, str(tmp_path / "lock")]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as holder:  # noqa: ASYNC220
        assert holder.stdout.readline() == b"held\n"
        assert try_lock(tmp_path / "lock") is None
        holder.kill()
    async with asyncio.timeout(DEADLINE_S), locked_async(tmp_path / "lock"):
        pass


async def test_a_lock_whose_file_was_removed_is_another_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    held = try_lock(path)
    path.unlink()
    again = try_lock(path)
    assert again is not None and try_lock(path) is None
    os.close(held)
    assert try_lock(path) is None
    os.close(again)
