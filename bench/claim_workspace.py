"""Snapshots, forks, search, listing and edits of a workspace, through its public class."""

import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from bench.claim_workspace_preparation import GIT, make_repository
from bench.result_row import Row

from hutch.edit.atomic_apply import edit_file
from hutch.jail.jail_startup import open_jail
from hutch.workspace.lifecycle.workspace_and_cache_removal import discard
from hutch.workspace.lifecycle.workspace_builder import prepare
from hutch.workspace.lifecycle.workspace_filling import Options
from hutch.workspace.lifecycle.workspace_mount import open_workspace
from hutch.workspace.lifecycle.workspace_record_and_directories import Home
from hutch.workspace.mounted_workspace_opening import open_mounted
from hutch.workspace.ripgrep_search import GrepQuery, grep
from hutch.workspace.workspace import Workspace
from hutch.workspace.workspace_fork import fork

ROUNDS = 15
Figures = dict[str, float]


async def median_ms(work: Callable[[int], Awaitable[object]], rounds: int = ROUNDS) -> float:
    took = []
    for number in range(rounds):
        began = time.perf_counter()
        await work(number)
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


async def snapshots_and_forks(place: Path, *, mode: str, files: int, size: int) -> Figures:
    source, home = place / "source", Home(place / "data")
    if not source.exists():
        make_repository(source, files=files, size=size)
    record = await prepare(home, mode, source, git=GIT, options=Options(mode=mode))  # type: ignore[arg-type]
    assert record.mode == mode
    found: Figures = {}
    async with open_mounted(home, await open_workspace(home, mode), home.workspace(mode), GIT) as workspace:
        await workspace.snapshot("first")

        async def four(number: int) -> None:
            for each in range(4):
                workspace.files.write(f"d{each}/f{each}.txt", f"{number}\n".encode())

        async def changed(number: int) -> float:
            await four(number)
            began = time.perf_counter()
            await workspace.snapshot("changed")
            return (time.perf_counter() - began) * 1000

        found["same"] = await median_ms(lambda number: workspace.snapshot("same"))
        found["four"] = statistics.median([await changed(number) for number in range(ROUNDS)])
        number = (await workspace.snapshot("to fork")).id
        found["fork"] = await median_ms(lambda each: fork(workspace, number, f"{mode}-{each}"), 5)
    return found


async def looking(place: Path) -> Figures:
    """grep compared with ripgrep, and a listing compared with a walk, on 10,000 files."""
    source, home = place / "source", Home(place / "data")
    make_repository(source, files=10_000, size=2_000)
    await prepare(home, "w", source, git=GIT, options=Options(mode="copy"))
    found: Figures = {}
    async with open_mounted(home, await open_workspace(home, "w"), home.workspace("w"), GIT) as workspace:
        async with open_jail(workspace.place) as jail:
            wanted = GrepQuery(pattern="deadbeef[0-9]", limit=50)
            found["grep"] = await median_ms(lambda _: grep(jail, wanted))
        words = ["rg", "--hidden", "-n", "--no-heading", "deadbeef[0-9]", str(home.workspace("w") / "tree")]
        found["rg"] = await median_ms(
            lambda _: asyncio.to_thread(subprocess.run, words, stdout=subprocess.DEVNULL)
        )
        found["listing"] = await median_ms(lambda _: listed(workspace))
        found["walk"] = await median_ms(lambda _: asyncio.to_thread(walk, home.workspace("w") / "tree"))
        text = "".join(f"line {number} of many that are all alike\n" for number in range(27_000)).encode()
        workspace.files.write("large.txt", text)
        found["edit"] = await median_ms(lambda number: edit(workspace, number))
    return found


async def listed(workspace: Workspace) -> None:
    cursor: str | None = None
    while True:
        page = await workspace.entries(recursive=True, cursor=cursor, limit=10_000)
        cursor = page.cursor
        if cursor is None:
            return


def walk(directory: Path) -> int:
    """The minimum work to list all files with their sizes."""
    count, waiting = 0, [str(directory)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                entry.stat(follow_symlinks=False)
                count += 1
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    return count


async def edit(workspace: Workspace, number: int) -> None:
    """The edit itself, when the old content is already stored."""
    old, new = f"line {number + 20_000} of many", f"line {number + 20_000} of few"
    await asyncio.to_thread(edit_now, workspace, old, new)


def edit_now(workspace: Workspace, old: str, new: str) -> None:
    edit_file(workspace, "large.txt", [{"old": old, "new": new}])


def measure() -> Iterator[Row]:
    sizes = (("5,000 files, 200 MB", 5_000, 40_000, 1), ("50,000 files", 50_000, 2_000, 2))
    for words, files, size, factor in sizes:
        with tempfile.TemporaryDirectory(prefix="hutch-bench-", ignore_cleanup_errors=True) as name:
            place = Path(name)
            for mode in ("overlay", "copy") if factor == 1 else ("overlay",):
                found = asyncio.run(snapshots_and_forks(place, mode=mode, files=files, size=size))
                yield Row(
                    f"snapshot, nothing changed; {mode}, {words}", found["same"], None, "ms", 25 * factor
                )
                yield Row(
                    f"snapshot, four files changed; {mode}, {words}", found["four"], None, "ms", 40 * factor
                )
                if mode == "overlay":
                    yield Row(f"fork; {words}", found["fork"], None, "ms", 50)
            discard(place / "data")
    with tempfile.TemporaryDirectory(prefix="hutch-bench-", ignore_cleanup_errors=True) as name:
        found = asyncio.run(looking(Path(name)))
        discard(Path(name) / "data")
    yield Row("grep in 10,000 files", found["grep"], found["rg"], "ms", 1.3, "rg")
    yield Row("list 10,000 files", found["listing"], found["walk"], "ms", 1.5, "scandir walk with stat")
    yield Row("edit a file of 1 MB", found["edit"], None, "ms", 20)
