"""What commands change, told while they run."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hutch.snapshots.confined_directory import Directory
from hutch.workspace.files.change_watcher import MAX_PATHS, Changed, watching
from hutch.workspace.files.files import Files
from tests.deadline import DEADLINE_S
from tests.workspace.changing import close, make_place, opened

pytestmark = pytest.mark.anyio


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return make_place(tmp_path)


@pytest.fixture
async def files(place: Path) -> AsyncIterator[Files]:
    found = opened(place)
    yield found
    close(found)


async def told(changes: AsyncIterator[Changed], *wanted: str) -> set[str]:
    """Listen until all of these were told; all that was."""
    found: set[str] = set()
    async with asyncio.timeout(DEADLINE_S):
        while not found.issuperset(wanted):
            batch = await anext(changes)
            assert not batch.rescan
            found.update(batch.paths)
    return found


async def test_everything_a_command_does_is_told(files: Files, place: Path) -> None:
    script = "echo x >> a; mkdir -p n/m; echo y > n/m/f; rm b; mv src/c src/moved; chmod 700 src/deep/d"
    async with watching(files.tree) as changes:
        process = await asyncio.create_subprocess_shell(script, cwd=place)
        await process.wait()
        found = await told(changes, "a", "n", "n/m", "n/m/f", "b", "src/c", "src/moved", "src/deep/d")
    assert found == {"a", "n", "n/m", "n/m/f", "b", "src/c", "src/moved", "src/deep/d"}


async def test_a_burst_comes_in_one_batch(files: Files, place: Path) -> None:
    async with watching(files.tree, debounce_s=0.3) as changes:
        for number in range(100):
            (place / f"f{number}").touch()
        async with asyncio.timeout(DEADLINE_S):
            assert await anext(changes) == Changed(tuple(sorted(f"f{number}" for number in range(100))))


async def test_new_directories_are_watched_however_fast_they_fill(files: Files, place: Path) -> None:
    async with watching(files.tree, debounce_s=0.01) as changes:
        wanted = []
        for number in range(50):
            deep = place / f"d{number}/e/f"
            deep.mkdir(parents=True)
            (deep / "file").touch()
            wanted.append(f"d{number}/e/f/file")
        await told(changes, *wanted)
        (place / "d7/e/f/later").touch()
        await told(changes, "d7/e/f/later")


async def test_a_moved_directory_is_known_by_its_new_name(files: Files, place: Path) -> None:
    async with watching(files.tree) as changes:
        (place / "src").rename(place / "lib")
        assert {"src", "lib", "lib/c", "lib/deep/d"} <= await told(changes, "src", "lib")
        (place / "lib/deep/new").touch()
        assert "lib/deep/new" in await told(changes, "lib/deep/new")


async def test_links_lead_nowhere(files: Files, place: Path, tmp_path: Path) -> None:
    (tmp_path / "outside/deep").mkdir()
    (place / "out").symlink_to(tmp_path / "outside")
    async with watching(files.tree) as changes:
        (place / "later").symlink_to(tmp_path / "outside")
        (tmp_path / "outside/deep/private").touch()
        (tmp_path / "outside/secret").write_text("changed")
        (place / "last").touch()
        assert await told(changes, "last", "later") == {"last", "later"}


async def test_git_and_our_own_staging_are_no_news(files: Files, place: Path) -> None:
    git = await asyncio.create_subprocess_exec("git", "init", "-q", place)
    await git.wait()
    files.journal.is_beside = False  # content waits in the tree, as in an overlay
    async with watching(files.tree, is_hidden=files.journal.is_hidden, debounce_s=0.01) as changes:
        (place / ".git/noise").touch()
        for number in range(20):
            await asyncio.to_thread(files.write, "a", b"%d" % number)
        (place / "sub/.git").mkdir(parents=True)
        (place / "sub/.git/noise").touch()
        (place / "last").touch()
        assert await told(changes, "a", "sub", "last") == {"a", "sub", "last"}


async def test_what_only_looks_like_our_staging_is_told(files: Files, place: Path) -> None:
    name = ".hutch-" + "0" * 32
    async with watching(files.tree, is_hidden=files.journal.is_hidden) as changes:
        (place / name).mkdir()
        (place / name / "hidden").touch()
        await told(changes, name, f"{name}/hidden")


async def test_when_more_happens_than_is_noted_that_is_said(files: Files, place: Path) -> None:
    """A queue of the kernel has an end; we do not read while a command makes more events than fit."""
    async with watching(files.tree) as changes:
        overflow(place)
        (place / "unseen").mkdir()
        async with asyncio.timeout(DEADLINE_S):
            assert await anext(changes) == Changed((), rescan=True)
            (place / "unseen/file").touch()  # made while nobody noted: watched all the same by now
            while (batch := await anext(changes)).rescan or "unseen/file" not in batch.paths:
                pass


def overflow(place: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for number in range(limit + 10):
        os.utime(place / "ab"[number % 2])


async def test_a_batch_has_an_end(files: Files, place: Path) -> None:
    async with watching(files.tree, debounce_s=1) as changes:
        (place / "many").mkdir()
        fd = os.open(place / "many", os.O_RDONLY)
        for number in range(MAX_PATHS + 10):
            os.mknod(f"{number}", dir_fd=fd)
        os.close(fd)
        async with asyncio.timeout(DEADLINE_S):
            while not (await anext(changes)).rescan:
                pass


async def test_without_watches_the_tree_is_compared(files: Files, place: Path) -> None:
    async with watching(files.tree, poll_s=0.05, max_watches=2) as changes:
        (place / "src/deep/new").touch()
        (place / "a").write_text("longer than it was")
        (place / "b").unlink()
        found = await told(changes, "src/deep/new", "a", "b")
        assert found == {"src/deep", "src/deep/new", "a", "b"}


async def test_when_watches_run_out_that_is_said_and_watching_goes_on(files: Files, place: Path) -> None:
    async with watching(files.tree, poll_s=0.05, max_watches=3) as changes:
        (place / "one-more").mkdir()
        async with asyncio.timeout(DEADLINE_S):
            assert (await anext(changes)).rescan
        (place / "one-more/file").touch()
        await told(changes, "one-more/file")


async def test_the_loop_goes_on_meanwhile(files: Files, place: Path) -> None:
    """A tree with many directories is walked elsewhere."""
    for number in range(3000):
        (place / f"src/d{number}").mkdir()
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    ticking = asyncio.create_task(tick())
    async with watching(files.tree):
        seen = ticks
    ticking.cancel()
    assert seen > 10


async def test_who_stops_listening_leaves_nothing(files: Files, place: Path) -> None:
    before = descriptors()

    async def listen() -> None:
        async with watching(files.tree) as changes:
            async for _ in changes:
                pass

    for number in range(20):
        listener = asyncio.create_task(listen())
        await asyncio.sleep(0.001 * number)
        (place / "a").touch()
        listener.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listener
    assert descriptors() == before


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_tree_may_be_closed_before_its_watcher(place: Path) -> None:
    tree = Directory.at(place)
    async with watching(tree) as changes:
        tree.close()
        (place / "a").write_text("x")
        await told(changes, "a")


async def test_an_overlay_in_another_namespace_is_watched(tmp_path: Path) -> None:
    """As a layered workspace is: mounted where only its holder sees it, reached by a descriptor."""
    for name in ("lower/src", "upper", "work", "tree"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "lower/src/file").write_text("below")
    layers = "lowerdir=lower,upperdir=upper,workdir=work,userxattr"
    script = f"mount -t overlay -o {layers} overlay tree && echo mounted && exec sh"
    holder = await asyncio.create_subprocess_exec(
        *("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script),
        cwd=tmp_path,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert holder.stdin is not None and holder.stdout is not None
    try:
        if await holder.stdout.readline() != b"mounted\n":
            pytest.skip("no overlay can be mounted here")
        with Directory(os.open(f"/proc/{holder.pid}/root{tmp_path}/tree", os.O_PATH)) as tree:
            async with watching(tree) as changes:
                holder.stdin.write(b"echo more >> tree/src/file; mkdir tree/new; echo x > tree/new/x\n")
                await told(changes, "src/file", "new", "new/x")
    finally:
        holder.stdin.close()
        await holder.wait()
