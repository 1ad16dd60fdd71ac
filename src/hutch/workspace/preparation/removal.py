"""Taking away what is no longer wanted, also after a crash in the middle.

What is made or removed has a name that tells so, and which process was at it. A
workspace gets such a name in one step and is gone from then on; the files may
follow slowly. What a dead process has left is found by the next `remove_leftovers`.
"""

import asyncio
import contextlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from hutch.domain.errors import Conflict, NotFound
from hutch.jail.limits.growth import measure
from hutch.jail.scratch_space import is_left_over, own_mark
from hutch.snapshots.directory import remove_entry, to_hutch_error
from hutch.system.file_lock import try_lock
from hutch.workspace.preparation.record import Home

NEW, TRASH = ".new", ".trash"
DAY_S = 86_400.0
MIN_AGE_S = 600.0  # somebody may be about to use what was used so recently
LOCK = "lock"


def temporary_name(name: str) -> str:
    """The name of something that is being made; it is swept away when this process is gone."""
    return f"{NEW}-{own_mark()}-{os.urandom(4).hex()}-{name}"


def discard(path: Path) -> None:
    """Remove a directory of ours with all that is in it, whatever a jail has done there. Blocks."""
    with _open_parent(path) as above:
        try:
            remove_entry(above, path.name)
        except FileNotFoundError:
            return
        except OSError as error:
            raise to_hutch_error(error, str(path)) from None


def move_to_trash(path: Path) -> Path:
    """Rename something to a name under which it is gone for everybody else."""
    aside = path.with_name(f"{TRASH}-{own_mark()}-{os.urandom(4).hex()}-{path.name}")
    path.rename(aside)
    return aside


async def remove_workspace(home: Home, id: str) -> None:
    """Remove a workspace and all that belongs to it. It must not be open."""
    place = home.workspace(id)
    try:
        held = try_lock(place / LOCK)
    except FileNotFoundError:
        raise NotFound(f"There is no workspace '{id}'. Nothing was removed.") from None
    if held is None:
        raise Conflict(f"The workspace '{id}' is open. Close it, then remove it.")
    try:
        aside = move_to_trash(place)
    finally:
        os.close(held)
    await asyncio.to_thread(discard, aside)


def remove_leftovers(home: Home) -> list[str]:
    """Remove what dead processes have left half made or half removed. Blocks."""
    swept = []
    for directory in (home.workspaces, home.bases, home.repositories):
        with contextlib.suppress(FileNotFoundError):
            for path in sorted(directory.iterdir()):
                kind, _, rest = path.name.partition("-")
                if kind in (NEW, TRASH) and is_left_over(rest.partition("-")[0]):
                    discard(path)
                    swept.append(path.name)
    return swept


@dataclass(frozen=True, slots=True)
class _CacheEntry:
    path: Path
    lock: Path
    used: float
    bytes: int


def remove_unused(home: Home, *, max_bytes: int, max_days: float) -> list[str]:
    """Remove bases and mirrors that nobody used for so long, and the oldest of those beyond a size. Blocks.

    A base that a workspace stands on stays, and so does what is in use at this moment.
    """
    now, removed = time.time(), []
    kept = sorted([*_bases(home), *_mirrors(home)], key=lambda each: each.used)
    total = sum(each.bytes for each in kept)
    for each in kept:
        is_old = now - each.used > max_days * DAY_S
        is_too_much = total > max_bytes and now - each.used > MIN_AGE_S
        if (is_old or is_too_much) and _remove_unused(home, each):
            total -= each.bytes
            removed.append(each.path.name)
    return removed


def _remove_unused(home: Home, kept: _CacheEntry) -> bool:
    held = try_lock(kept.lock)
    if held is None:
        return False
    try:
        # Asked only now that nobody else can begin to stand on it.
        if any(record.base == kept.path.name for record in home.records()):
            return False
        aside = move_to_trash(kept.path)
        kept.lock.unlink()
    finally:
        os.close(held)
    discard(aside)
    return True


def _bases(home: Home) -> list[_CacheEntry]:
    found = []
    for path in _visible(home.bases, suffix=""):
        with contextlib.suppress(OSError, ValueError, KeyError):
            lock = home.bases / f"{path.name}.lock"
            size = json.loads((path / "base.json").read_text())["bytes"]
            found.append(_CacheEntry(path, lock, lock.stat().st_mtime, size))
    return found


def _mirrors(home: Home) -> list[_CacheEntry]:
    found = []
    for path in _visible(home.repositories, suffix=".git"):
        lock = path.with_suffix(".lock")
        with contextlib.suppress(OSError), _open_parent(path / "HEAD") as fd:
            found.append(_CacheEntry(path, lock, lock.stat().st_mtime, measure(fd).bytes))
    return found


def _visible(directory: Path, *, suffix: str) -> list[Path]:
    try:
        paths = list(directory.iterdir())
    except FileNotFoundError:
        return []
    return [
        path for path in paths if not path.name.startswith(".") and path.suffix == suffix and path.is_dir()
    ]


@contextlib.contextmanager
def _open_parent(path: Path):  # type: ignore[no-untyped-def]
    fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
