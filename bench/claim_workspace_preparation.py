"""Preparing a workspace, compared with `cp -a` and `git worktree add` of the same repository."""

import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from bench.result_row import Row

from hutch.forge.host_git import Git
from hutch.jail.jail_startup import open_jail
from hutch.workspace.lifecycle.workspace_and_cache_removal import discard, remove_workspace
from hutch.workspace.lifecycle.workspace_builder import prepare
from hutch.workspace.lifecycle.workspace_mount import WorkspaceMount, open_workspace
from hutch.workspace.lifecycle.workspace_record_and_directories import Home

GIT = Git({"PATH": os.defpath})
ROUNDS = 7


def make_repository(directory: Path, *, files: int, size: int) -> None:
    for number in range(files):
        path = directory / f"d{number % 60}" / f"f{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(32).hex().encode() * (size // 64) + b"\n")
    run = ["git", "-C", str(directory), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*run, *words], check=True)


def run(*words: str) -> None:
    subprocess.run(words, check=True)


async def timed(rounds: int, **works: Callable[[int], Awaitable[object]]) -> dict[str, float]:
    """The median of each, measured alternately, so that other load affects all alike."""
    took: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds):
        for name, work in works.items():
            began = time.perf_counter()
            await work(number)
            took[name].append((time.perf_counter() - began) * 1000)
    return {name: statistics.median(values) for name, values in took.items()}


async def figures(place: Path, *, files: int, size: int) -> dict[str, float]:
    source, home = place / "source", Home(place / "data")
    make_repository(source, files=files, size=size)
    await prepare(home, "first", source, git=GIT)

    in_use: list[WorkspaceMount] = []

    async def ours(number: int) -> None:
        await prepare(home, f"w{number}", source, git=GIT)
        in_use.append(await open_workspace(home, f"w{number}"))

    async def copy(number: int) -> None:
        await asyncio.to_thread(run, "cp", "-a", str(source), str(place / f"copy{number}"))

    async def worktree(number: int) -> None:
        tree = place / f"tree{number}"
        await asyncio.to_thread(run, "git", "-C", str(source), "worktree", "add", "-q", "--detach", str(tree))

    async def jail(where: object) -> None:
        async with open_jail(where):  # type: ignore[arg-type]
            pass

    # Not alternately: after a large copy the disk is still busy with it for a while.
    found = {**await timed(ROUNDS, ours=ours), **await timed(3, copy=copy, worktree=worktree)}
    for opened in in_use:
        opened.close()
    opened = await open_workspace(home, "first")
    plain = place / "plain"
    plain.mkdir(mode=0o755)
    found |= await timed(ROUNDS, layers=lambda _: jail(opened.place), plain=lambda _: jail(plain))
    opened.close()
    for number in range(ROUNDS):
        await remove_workspace(home, f"w{number}")
    return found


def measure() -> Iterator[Row]:
    found = _figures(files=100, size=2_000)
    yield Row("100 files ready, from a base", found["ours"], found["copy"], "ms", 1.5, "cp -a")
    found = _figures(files=5_000, size=40_000)
    large = "5,000 files, 200 MB ready, from a base"
    yield Row(large, found["ours"], None, "ms", 60)
    yield Row(large, found["ours"], found["copy"], "ms", 1, "cp -a")
    yield Row(large, found["ours"], found["worktree"], "ms", 1, "git worktree add")
    yield Row("jail ready on layers", found["layers"], found["plain"], "ms", 1.5, "on a directory")


def _figures(*, files: int, size: int) -> dict[str, float]:
    place = Path(tempfile.mkdtemp(prefix="hutch-bench-"))
    try:
        return asyncio.run(figures(place, files=files, size=size))
    finally:
        discard(place)
