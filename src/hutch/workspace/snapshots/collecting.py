"""Room that snapshots no longer need, given back; what they need, packed tight.

Git packs everything that is kept into one pack while snapshots go on being taken:
they only add packs, and refer to nothing older than what is kept. Then, with the
lock held for a moment, the packs from before are removed. Whoever is killed on the
way leaves both, and the next time clears up.
"""

import asyncio
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hutch.forge.git import Git
from hutch.workspace.prepare.lock import locked
from hutch.workspace.snapshots.pack import sync_directory
from hutch.workspace.snapshots.storage import Storage

MANY_PACKS = 50
TIMEOUT_S = 3600.0
SETTINGS = {"pack.threads": "1", "core.bigFileThreshold": "4m"}


@dataclass(frozen=True, slots=True)
class Collected:
    """What collecting has achieved."""

    bytes_before: int
    bytes_after: int
    packs: int


@dataclass(frozen=True, slots=True)
class _Before:
    commits: frozenset[str]
    packs: frozenset[Path]  # their indexes
    bytes: int


def is_due(storage: Storage) -> bool:
    """Whether there is so much that collecting is worth it."""
    return len(list((storage.git_dir / "objects/pack").glob("*.idx"))) >= MANY_PACKS


async def collect(git: Git, storage: Storage) -> Collected:
    """Pack what is kept and remove what is not. Snapshots can be taken meanwhile."""
    async with locked(storage.own / "collecting.lock"):
        return await _collect(git, storage)


async def _collect(git: Git, storage: Storage) -> Collected:
    before = await asyncio.to_thread(_begin, storage)
    new: Path | None = None
    needed: frozenset[str] = frozenset()
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
        needed = frozenset(listed.decode().split())
    return await asyncio.to_thread(_end, storage, before, new, needed)


def _begin(storage: Storage) -> _Before:
    """What there is; and away with what somebody left who was killed."""
    packs = storage.git_dir / "objects/pack"
    with storage.locked():
        storage.release()
        for path in packs.iterdir():
            if path.name.startswith("tmp_") or (
                path.suffix in (".pack", ".keep") and not path.with_suffix(".idx").exists()
            ):
                path.unlink()
        for path in storage.own.glob("tmp_*"):
            path.unlink()
        shutil.rmtree(storage.git_dir / "collecting", ignore_errors=True)
        (storage.git_dir / "collecting").mkdir()
        return _Before(storage.anchors(), frozenset(packs.glob("*.idx")), _bytes(packs.iterdir()))


def _end(storage: Storage, before: _Before, new: Path | None, needed: frozenset[str]) -> Collected:
    packs = storage.git_dir / "objects/pack"
    with storage.locked():
        kept: set[Path] = set()
        if new is not None:
            for suffix in (".pack", ".idx"):  # the index last: it makes the pack visible
                new.with_suffix(suffix).replace(packs / new.with_suffix(suffix).name)
            kept.add(packs / new.with_suffix(".idx").name)
            sync_directory(packs)
        for index in before.packs - kept:
            keep = index.with_suffix(".keep")
            if keep.exists() and keep.read_text() in needed:
                continue
            for suffix in (".idx", ".rev", ".keep", ".pack"):  # never an index without its pack
                index.with_suffix(suffix).unlink(missing_ok=True)
        shutil.rmtree(storage.git_dir / "collecting", ignore_errors=True)
        left = list(packs.iterdir())
        return Collected(before.bytes, _bytes(left), sum(path.suffix == ".pack" for path in left))


def _bytes(paths: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in paths)
