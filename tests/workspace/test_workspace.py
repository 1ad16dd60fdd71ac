"""An open workspace: no change is left half done, and its buffers are bounded."""

# ruff: noqa: ASYNC240 (small files, looked at between steps)

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hutch.domain.errors import Conflict, HutchError, LimitReached, Unavailable
from hutch.snapshots.garbage_collection import MAX_PACKS, disk_usage
from hutch.workspace.lifecycle.in_place_workspace import open_in_place
from hutch.workspace.lifecycle.workspace_record_and_directories import Home
from hutch.workspace.mounted_workspace_opening import open_mounted
from hutch.workspace.workspace import DEFAULT, SnapshotLimits, Workspace
from tests.deadline import DEADLINE_S
from tests.forked_command import PLAIN, ROOT, run
from tests.workspace.full_disk import files_no_longer_than
from tests.workspace.preparation_fixtures import HOST, make_home

pytestmark = pytest.mark.anyio


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_home(tmp_path)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    place = tmp_path / "mine"
    place.mkdir()
    (place / "a.txt").write_text("mine\n")
    return place


@asynccontextmanager
async def opened(home: Home, tree: Path, keep: SnapshotLimits = DEFAULT) -> AsyncIterator[Workspace]:
    place, directory = await open_in_place(home, tree, quota_bytes=1 << 30, quota_files=10_000)
    async with open_mounted(home, place, directory, HOST, limits=keep) as workspace:
        yield workspace


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def moments(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0.01)


async def test_a_cancelled_change_keeps_the_lock_until_it_is_complete(home: Home, tree: Path) -> None:
    async with opened(home, tree) as workspace:
        with workspace.files.exclusive():  # a change cannot go on
            task = asyncio.ensure_future(workspace.write("b.txt", b"new\n"))
            await moments()
            for _ in range(3):  # however often
                task.cancel()
                await moments(3)
            assert not task.done()
            later = asyncio.ensure_future(workspace.write("c.txt", b"later\n"))
            await moments()
        with pytest.raises(asyncio.CancelledError):
            await task
        await later
        assert (tree / "c.txt").read_bytes() == b"later\n"
        reasons = [each.reason for each in await workspace.list_snapshots()]
        assert reasons[0] == "before writing b.txt"


async def test_closing_waits_for_what_is_being_done(home: Home, tree: Path) -> None:
    begun, go, seen = threading.Event(), threading.Event(), []

    def work() -> None:
        begun.set()
        go.wait(30)
        seen.append(os.fstat(workspace.mount.directory.fd).st_ino)

    async with opened(home, tree) as workspace:
        task = asyncio.ensure_future(workspace.work(work))
        assert await asyncio.to_thread(begun.wait, DEADLINE_S)  # what has not begun is never done
        task.cancel()
        threading.Timer(0.3, go.set).start()
    assert seen == [tree.stat().st_ino]
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(Unavailable, match="closed"):
        await workspace.write("b.txt", b"too late\n")
    assert not (tree / "b.txt").exists()


async def test_a_block_left_at_any_moment_leaves_all_or_nothing(home: Home, tree: Path) -> None:
    count = 30
    add = "".join(f"*** Add File: n{i}.txt\n+x{i}\n" for i in range(count))
    remove = "".join(f"*** Delete File: n{i}.txt\n" for i in range(count))
    for round in range(25):
        there = len(list(tree.glob("n*.txt")))
        assert there in (0, count)
        async with opened(home, tree) as workspace:
            patch = f"*** Begin Patch\n{remove if there else add}*** End Patch\n"
            task = asyncio.ensure_future(workspace.apply_patch(patch))
            await asyncio.sleep(round * 0.004)
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert {path.name for path in tree.iterdir()} - {f"n{i}.txt" for i in range(count)} == {"a.txt"}


async def test_no_descriptor_is_left_open(home: Home, tree: Path) -> None:
    async def once() -> None:
        async with opened(home, tree) as workspace:
            await workspace.write("b.txt", os.urandom(10))

    await once()
    before = descriptors()
    for _ in range(5):
        await once()
    assert descriptors() <= before  # fewer, when something of another test was closed meanwhile
    place = next((home.data / "places").iterdir())
    (place / "snapshots.git").rename(place / "aside")
    (place / "snapshots.git").write_text("in the way")
    for _ in range(5):
        with pytest.raises(HutchError) as caught:
            await once()
        assert str(home.data) not in str(caught.value)
    assert descriptors() <= before  # fewer, when something of another test was closed meanwhile


async def test_opening_that_is_cancelled_leaves_no_lock(home: Home, tree: Path) -> None:
    task = asyncio.ensure_future(open_in_place(home, tree, quota_bytes=1 << 30, quota_files=1000))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with opened(home, tree):
        with pytest.raises(Conflict):
            async with opened(home, tree):
                pass


async def test_deleting_makes_room_when_there_is_none_for_a_snapshot(home: Home, tree: Path) -> None:
    async with opened(home, tree) as workspace:
        await workspace.snapshot("first")
        (tree / "big.bin").write_bytes(os.urandom(3_000_000))
        packs = workspace.snapshots.storage.git_dir / "objects/pack"
        with files_no_longer_than(100_000):
            with pytest.raises(LimitReached) as caught:
                await workspace.write("a.txt", b"other\n")
            assert str(home.data) not in str(caught.value)
            (change,) = await workspace.delete("big.bin")
        assert (change.kind, change.path) == ("deleted", "big.bin")
        assert not (tree / "big.bin").exists()
        assert (tree / "a.txt").read_text() == "mine\n"
        assert not list(packs.glob("tmp_*"))
        await workspace.write("a.txt", b"other\n")


async def test_what_was_left_by_the_killed_is_cleared(home: Home, tree: Path) -> None:
    async with opened(home, tree) as workspace:
        await workspace.snapshot("first")
        storage = workspace.snapshots.storage
    left = [storage.git_dir / "objects/pack/tmp_pack_0123", storage.own / "tmp_0123"]
    for path in left:
        path.write_bytes(b"half")
    with storage.locked():  # somebody is at work: it may be theirs
        async with opened(home, tree):
            assert all(path.exists() for path in left)
    async with opened(home, tree):
        assert not any(path.exists() for path in left)


async def test_only_so_many_snapshots_are_kept(home: Home, tree: Path) -> None:
    async with opened(home, tree, SnapshotLimits(snapshots=5)) as workspace:
        for number in range(12):
            await workspace.write("a.txt", b"%d\n" % number)
        numbers = [each.id for each in await workspace.list_snapshots()]
        assert numbers == [1, 9, 10, 11, 12]
        await workspace.restore(1)
        assert (tree / "a.txt").read_text() == "mine\n"


async def test_where_a_run_has_begun_stays(home: Home, tree: Path) -> None:
    async with opened(home, tree, SnapshotLimits(snapshots=3)) as workspace:
        await workspace.write("a.txt", b"before\n")
        begun = await workspace.snapshot("before the run")
        for number in range(8):
            await workspace.write("a.txt", b"%d\n" % number)
        assert begun.id in [each.id for each in await workspace.list_snapshots()]


async def test_packs_are_put_together_as_they_come(home: Home, tree: Path) -> None:
    async with opened(home, tree) as workspace:
        for number in range(MAX_PACKS + 10):
            await workspace.write("a.txt", b"%d\n" % number)
    assert disk_usage(workspace.snapshots.storage).packs <= 15
    async with opened(home, tree) as workspace:
        await workspace.restore(30)
        assert (tree / "a.txt").read_bytes() == b"28\n"


async def test_restoring_again_and_again_leaves_no_heap(home: Home, tree: Path) -> None:
    async with opened(home, tree, SnapshotLimits(snapshots=5)) as workspace:
        first = await workspace.snapshot("first")
        for number in range(MAX_PACKS // 2 + 10):
            (tree / "a.txt").write_text(f"{number}\n")
            await workspace.restore(first.id)
        assert (tree / "a.txt").read_text() == "mine\n"
        assert len(await workspace.list_snapshots()) == 5
    assert disk_usage(workspace.snapshots.storage).packs <= 25


async def test_snapshots_take_no_more_than_they_may(home: Home, tree: Path) -> None:
    most = 2 << 20
    async with opened(home, tree, SnapshotLimits(bytes=most)) as workspace:
        for _ in range(15):
            await workspace.write("a.bin", os.urandom(400_000))
        last = (tree / "a.bin").read_bytes()
        newest = await workspace.snapshot("last")
    assert disk_usage(workspace.snapshots.storage).bytes <= most
    async with opened(home, tree, SnapshotLimits(bytes=most)) as workspace:
        (tree / "a.bin").unlink()
        await workspace.restore(newest.id)
        assert (tree / "a.bin").read_bytes() == last


async def test_the_newest_stays_whatever_it_takes(home: Home, tree: Path) -> None:
    async with opened(home, tree, SnapshotLimits(bytes=1 << 20)) as workspace:
        await workspace.snapshot("first")
        (tree / "a.bin").write_bytes(os.urandom(3 << 20))
        newest = await workspace.snapshot("large")
        await workspace.compact()
        assert newest.id in [each.id for each in await workspace.list_snapshots()]
        (tree / "a.bin").unlink()
        await workspace.restore(newest.id)
        assert (tree / "a.bin").stat().st_size == 3 << 20


def test_a_process_that_is_killed_leaves_it_usable(home: Home, tree: Path) -> None:
    script = (
        "import asyncio, os, sys\nfrom pathlib import Path\n"
        "from tests.workspace.test_workspace import opened\n"
        "from hutch.workspace.lifecycle.workspace_record_and_directories import Home\n"
        "async def main():\n"
        "    async with opened(Home(Path(sys.argv[1])), Path(sys.argv[2])) as workspace:\n"
        "        await workspace.write('a.txt', b'kept')\n        os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    ran = run([sys.executable, "-c", script, home.data, tree], env=PLAIN, cwd=ROOT)
    assert ran.returncode == -signal.SIGKILL

    async def again() -> None:
        async with opened(home, tree) as workspace:
            await workspace.restore(1)

    asyncio.run(again())
    assert (tree / "a.txt").read_text() == "mine\n"
