"""The longest time for which work on a very large workspace blocks the event loop.

The work runs in threads. Single calls into C that hold the interpreter lock block the loop:
a sort, a garbage collection, a dict that is freed. The interpreter has the server's settings.
Of a stall, only the processor time of this process counts: on a busy machine the rest belongs
to others. The alternative is the same work on the loop itself, which would be blocked for all
of its processor time.
"""

import asyncio
import gc
import os
import tempfile
import time
from collections.abc import Awaitable, Iterator
from contextlib import suppress
from pathlib import Path

from bench.claim_workspace_preparation import GIT
from bench.result_row import Row
from bench.server_interpreter import configured_as_server

from hutch.workspace.difference_pages_and_patch import find_differences
from hutch.workspace.lifecycle.in_place_workspace import open_in_place
from hutch.workspace.lifecycle.workspace_record_and_directories import Home
from hutch.workspace.mounted_workspace_opening import open_mounted

FILES = 100_000
TICK_S = 0.005


async def max_stall_ms(work: Awaitable[object]) -> tuple[float, float]:
    """The maximum delay of a sleeping task during `work`, in processor time, and the total processor time of
    `work`."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            began, used = time.perf_counter(), time.process_time()
            await asyncio.sleep(TICK_S)
            late = time.perf_counter() - began - TICK_S
            longest = max(longest, min(late, time.process_time() - used))

    watching = asyncio.ensure_future(watch())
    try:
        await asyncio.sleep(10 * TICK_S)
        longest, used_before = 0.0, time.process_time()
        await work
        used_s = time.process_time() - used_before
        await asyncio.sleep(2 * TICK_S)
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
    return longest * 1000, used_s * 1000


def make_files(tree: Path) -> None:
    """Make all files in one directory, so that work per directory is one step."""
    directory = tree / "many"
    directory.mkdir()
    for number in range(FILES):
        fd = os.open(f"{directory}/file-{number}.txt", os.O_WRONLY | os.O_CREAT, 0o644)
        os.write(fd, b"%d\n" % (number % 1000))
        os.close(fd)


async def stalls(place: Path) -> dict[str, tuple[float, float]]:
    tree, home = place / "tree", Home(place / "data")
    tree.mkdir()
    opened, directory = await open_in_place(home, tree, quota_bytes=1 << 40, quota_files=FILES * 2)
    found: dict[str, tuple[float, float]] = {}
    async with open_mounted(home, opened, directory, GIT) as workspace:
        await workspace.snapshot("first")
        await asyncio.to_thread(make_files, tree)
        gc.collect()
        gc.freeze()
        found["diff"] = await max_stall_ms(find_differences(workspace))
        found["snapshot"] = await max_stall_ms(workspace.snapshot("many"))
    return found


def measure() -> Iterator[Row]:
    place = tempfile.TemporaryDirectory(prefix="hutch-bench-", ignore_cleanup_errors=True)
    with configured_as_server(), place as name:
        found = asyncio.run(stalls(Path(name)))
    for work, (stall_ms, work_ms) in found.items():
        claim = f"longest stall of the loop, {work} of {FILES:,} files"
        yield Row(claim, stall_ms, work_ms, "ms", 0.05, "the same work on the loop")
