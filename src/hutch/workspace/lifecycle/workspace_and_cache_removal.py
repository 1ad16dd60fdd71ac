"""Removes workspaces, bases and mirrors, also after a crash.

Directories that are being created or removed have a temporary name with the id of the
process. A workspace is removed by a rename to such a name; its files are deleted
afterwards. `remove_leftovers` deletes leftovers of dead processes.
"""

import asyncio
import contextlib
import json
import os
import time
from pathlib import Path

from hutch.domain.errors import Conflict, NotFound
from hutch.jail.limits.disk_growth import measure
from hutch.jail.pid_stamped_names import is_left_over, own_mark
from hutch.snapshots.confined_directory import remove_entry, to_hutch_error
from hutch.system.file_lock import try_lock
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.lifecycle.workspace_record_and_directories import Home

NEW, TRASH = ".new", ".trash"
DAY_S = 86_400.0
MIN_AGE_S = 600.0  # recently used bases may be used again soon
LOCK = "lock"


def temporary_name(name: str) -> str:
    """A temporary name, which `remove_leftovers` recognizes after this process has ended."""
    return f"{NEW}-{own_mark()}-{os.urandom(4).hex()}-{name}"


def discard(path: Path) -> None:
    """Remove a directory with its content, whatever a jail did in it. Blocks the thread."""
    with _open_parent(path) as above:
        try:
            remove_entry(above, path.name)
        except FileNotFoundError:
            return
        except OSError as error:
            raise to_hutch_error(error, str(path)) from None


def move_to_trash(path: Path) -> Path:
    """Rename a directory, so that it no longer exists for other processes."""
    aside = path.with_name(f"{TRASH}-{own_mark()}-{os.urandom(4).hex()}-{path.name}")
    path.rename(aside)
    return aside


async def remove_workspace(home: Home, id: str) -> None:
    """Remove a workspace with its data. It must not be open."""
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
    """Remove unfinished leftovers of dead processes. Blocks the thread."""
    removed = []
    for directory in (home.workspaces, home.bases, home.repositories):
        with contextlib.suppress(FileNotFoundError):
            for path in sorted(directory.iterdir()):
                kind, _, rest = path.name.partition("-")
                if kind in (NEW, TRASH) and is_left_over(rest.partition("-")[0]):
                    discard(path)
                    removed.append(path.name)
    return removed


@dataclass(frozen=True, slots=True)
class _CacheEntry:
    path: Path
    lock: Path
    used: float
    bytes: int


def remove_unused(home: Home, *, max_bytes: int, max_days: float) -> list[str]:
    """Remove bases and mirrors unused for `max_days`, and the oldest beyond `max_bytes`. Blocks the thread.

    Bases of existing workspaces and entries in use are not removed.
    """
    now, removed = time.time(), []
    entries = sorted([*_bases(home), *_mirrors(home)], key=lambda each: each.used)
    total = sum(each.bytes for each in entries)
    for each in entries:
        is_old = now - each.used > max_days * DAY_S
        is_too_much = total > max_bytes and now - each.used > MIN_AGE_S
        if (is_old or is_too_much) and _remove_unused(home, each):
            total -= each.bytes
            removed.append(each.path.name)
    return removed


def _remove_unused(home: Home, entry: _CacheEntry) -> bool:
    held = try_lock(entry.lock)
    if held is None:
        return False
    try:
        # Checked under the lock, so that no workspace can start to use it.
        if any(record.base == entry.path.name for record in home.records()):
            return False
        aside = move_to_trash(entry.path)
        entry.lock.unlink()
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
