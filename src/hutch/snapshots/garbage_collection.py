"""Frees the space of deleted snapshots, and repacks the objects of the others.

Git packs all needed objects into one pack while further snapshots are taken: these
only add packs, and refer to no deleted object. Then, with the lock held for a moment,
the indexes of the old packs are removed, so that these are no longer read, and after
that the packs themselves. After a crash both may exist, and the next collection cleans up.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path

from hutch.forge.host_git import Git
from hutch.snapshots.git_storage import Storage
from hutch.system.atomic_file import sync_directory
from hutch.system.file_lock import locked_async
from hutch.system.lazy_dataclass import dataclass
from hutch.system.uncancellable_work import run_in_thread

MAX_PACKS = 50
TIMEOUT_S = 3600.0
SETTINGS = {"pack.threads": "1", "core.bigFileThreshold": "4m"}


@dataclass(frozen=True, slots=True)
class CollectionResult:
    """The result of a collection."""

    bytes_before: int
    bytes_after: int
    packs: int


@dataclass(frozen=True, slots=True)
class _StateBefore:
    commits: frozenset[str]
    packs: frozenset[Path]  # their indexes
    bytes: int


def is_due(storage: Storage) -> bool:
    """True if there are enough packs for a collection."""
    return disk_usage(storage).packs >= MAX_PACKS


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """The disk usage of snapshots."""

    packs: int  # that can be merged: not those of one large file
    bytes: int


def disk_usage(storage: Storage) -> DiskUsage:
    packs = size = 0
    with os.scandir(storage.git_dir / "objects/pack") as entries:
        for entry in entries:
            packs += entry.name.endswith(".idx") - entry.name.endswith(".keep")
            with suppress(FileNotFoundError):
                size += entry.stat(follow_symlinks=False).st_size
    return DiskUsage(packs, size)


def drop_oldest(storage: Storage, *, keep: int, pinned: AbstractSet[int] = frozenset()) -> None:
    """Delete the oldest snapshots over the number `keep`; never the first, the newest or a pinned one."""
    if len(storage.numbers()) <= keep:
        return
    with storage.locked():
        there = sorted(storage.commits())
        free = [number for number in there[1:-1] if number not in pinned]
        storage.delete(free[: max(0, len(there) - keep)])


async def shrink_to_fit(
    git: Git, storage: Storage, *, max_bytes: int, pinned: AbstractSet[int] = frozenset()
) -> DiskUsage:
    """Collect, and delete the oldest until the rest fits; the first one last, the newest never."""
    await collect(git, storage)
    while (now := await run_in_thread(disk_usage, storage)).bytes > max_bytes:
        if not await run_in_thread(_drop_share, storage, 1 - max_bytes / now.bytes, pinned):
            break
        await collect(git, storage)
    return now


def _drop_share(storage: Storage, share: float, pinned: AbstractSet[int]) -> bool:
    with storage.locked():
        there = sorted(storage.commits())
        free = [number for number in (*there[1:-1], *there[: min(1, len(there) - 1)]) if number not in pinned]
        old = free[
            : max(1, int(len(free) * share / 2))
        ]  # snapshots share objects: deleting half of them may be enough
        storage.delete(old)
    return bool(old)


async def collect(git: Git, storage: Storage) -> CollectionResult:
    """Repack needed objects and remove the others. Snapshots can be taken meanwhile."""
    async with locked_async(storage.own / "collecting.lock"):
        return await _collect(git, storage)


async def _collect(git: Git, storage: Storage) -> CollectionResult:
    before = await run_in_thread(_begin, storage)
    new: Path | None = None
    listed = b""
    if before.commits:
        revisions = "".join(f"{commit}\n" for commit in sorted(before.commits)).encode()
        prefix = storage.git_dir / "collecting/pack"
        printed = await git.run(
            *("pack-objects", "--revs", "--local", "--honor-pack-keep", "--non-empty", "--missing=allow-any"),
            *("--delta-base-offset", "-q", str(prefix)),
            git_dir=storage.git_dir,
            settings=SETTINGS,
            stdin=revisions,
            timeout_s=TIMEOUT_S,
        )
        if name := printed.decode().strip():
            new = prefix.with_name(f"pack-{name}.pack")
        listed = await git.run(
            *("rev-list", "--objects", "--no-object-names", "--missing=allow-any", "--stdin"),
            git_dir=storage.git_dir,
            stdin=revisions,
            timeout_s=TIMEOUT_S,
        )
    return await run_in_thread(_end, storage, before, new, listed)


def _begin(storage: Storage) -> _StateBefore:
    """Read the current state, and remove leftovers of a killed process."""
    packs = storage.git_dir / "objects/pack"
    with storage.locked():
        storage.release_anchors()
        for path in packs.iterdir():
            if path.name.startswith("tmp_") or (
                path.suffix in (".pack", ".keep", ".rev") and not path.with_suffix(".idx").exists()
            ):
                path.unlink()
        for path in storage.own.glob("tmp_*"):
            path.unlink()
        shutil.rmtree(storage.git_dir / "collecting", ignore_errors=True)
        (storage.git_dir / "collecting").mkdir()
        return _StateBefore(storage.anchors(), frozenset(packs.glob("*.idx")), _bytes(packs.iterdir()))


def _end(storage: Storage, before: _StateBefore, new: Path | None, listed: bytes) -> CollectionResult:
    """Replace the old packs. `listed` has a line for every needed object."""
    packs = storage.git_dir / "objects/pack"
    with storage.locked():
        new_packs: set[Path] = set()
        if new is not None:
            for suffix in (".pack", ".idx"):  # the index last: it makes the pack visible
                new.with_suffix(suffix).replace(packs / new.with_suffix(suffix).name)
            new_packs.add(packs / new.with_suffix(".idx").name)
            sync_directory(packs)
        large = {index: _object_in_large_pack(index) for index in before.packs - new_packs}
        wanted = {name for name in large.values() if name}
        needed = {name for name in _lines(listed) if name in wanted} if wanted else set()
        unneeded = [index for index, name in large.items() if name not in needed]
        for index in unneeded:
            index.unlink(missing_ok=True)
    for index in unneeded:  # without the lock, because deleting the data of many packs takes a while
        for suffix in (".rev", ".keep", ".pack"):
            index.with_suffix(suffix).unlink(missing_ok=True)
    shutil.rmtree(storage.git_dir / "collecting", ignore_errors=True)
    remaining = list(packs.iterdir())
    count = sum(path.suffix == ".pack" for path in remaining)
    return CollectionResult(before.bytes, _bytes(remaining), count)


def _object_in_large_pack(index: Path) -> bytes:
    """The object of a pack that holds one large file; b"" for other packs."""
    try:
        return index.with_suffix(".keep").read_bytes()
    except FileNotFoundError:
        return b""


def _lines(text: bytes) -> Iterator[bytes]:
    """Line by line: splitting millions of lines in one call would block the interpreter for too long."""
    start = 0
    while (end := text.find(b"\n", start)) >= 0:
        yield text[start:end]
        start = end + 1


def _bytes(paths: Iterable[Path]) -> int:
    total = 0
    for path in paths:
        with suppress(FileNotFoundError):  # a temporary file of a snapshot
            total += path.stat().st_size
    return total
