"""Opens a user's directory as a workspace in place; its snapshots are stored elsewhere."""

import asyncio
import hashlib
import os
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path

from hutch.domain.errors import Conflict, NotFound
from hutch.jail.jail_directory_and_namespaces import JailLocation
from hutch.snapshots.confined_directory import Directory
from hutch.system.file_lock import try_lock
from hutch.system.uncancellable_work import wait_until_done
from hutch.workspace.lifecycle.initial_repository_settings import with_settings
from hutch.workspace.lifecycle.workspace_and_cache_removal import LOCK
from hutch.workspace.lifecycle.workspace_mount import WorkspaceMount
from hutch.workspace.lifecycle.workspace_record_and_directories import Home, Record

FOLDER = "places"
IN_PLACE = "in place"  # the mode_reason in its record
MAX_PROCESSES = 32  # that work in one directory at the same time


async def open_in_place(
    home: Home,
    directory: Path,
    *,
    quota_bytes: int,
    quota_files: int,
    beside_others: bool = False,
    number: int = 1,
    excluding: Collection[int] = (),
) -> tuple[WorkspaceMount, Path]:
    """Open a directory, and return it with its data directory.

    No other process may have it open with this number, unless `beside_others`: then this process gets a
    journal and snapshots of its own, with the next number that is free.
    """
    last = MAX_PROCESSES + len(excluding) if beside_others else number
    numbers = [each for each in range(number, last + 1) if each not in excluding]
    opening = asyncio.ensure_future(
        asyncio.to_thread(_open, home, directory, quota_bytes, quota_files, numbers)
    )
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        await wait_until_done(opening)
        if not opening.cancelled() and opening.exception() is None:
            opening.result()[0].close()
        raise


def _open(
    home: Home, directory: Path, quota_bytes: int, quota_files: int, numbers: Sequence[int]
) -> tuple[WorkspaceMount, Path]:
    try:
        real = directory.resolve(strict=True)
    except OSError:
        raise NotFound(f"There is no directory '{directory}'.") from None
    if not real.is_dir():
        raise NotFound(f"'{directory}' is not a directory.")
    for number in numbers:
        place = _place(home, real, number)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if (lock := try_lock(place / LOCK)) is not None:
            break
    else:
        raise Conflict(f"'{real}' is in use by another Hutch process. End that first.")
    record = _record(place, real, quota_bytes=quota_bytes, quota_files=quota_files)
    try:
        directory_fd = Directory.at(real)
        record = with_settings(record, directory_fd)
        return WorkspaceMount(record, directory_fd, None, JailLocation(real, real), place, lock), place
    except BaseException:
        os.close(lock)
        raise


def open_recorded_place(home: Home, directory: Path, number: int, scratch: Path) -> WorkspaceMount:
    """Open the snapshots of a process that has or had a directory open, to read them. Blocks.

    Takes no lock of that process, and leaves the directory alone. `scratch` is empty, and becomes the data
    directory.
    """
    real = directory.resolve()
    place = _place(home, real, number)
    if not (place / "snapshots.git").is_dir():
        raise NotFound(f"No snapshots of '{real}' are stored.")
    for name in ("snapshots", "snapshots.git"):
        (scratch / name).symlink_to(place / name)
    tree = scratch / "tree"
    tree.mkdir()
    lock = os.open(scratch / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    record = _record(place, real, quota_bytes=0, quota_files=0)
    return WorkspaceMount(record, Directory.at(tree), None, JailLocation(tree, tree), scratch, lock)


def _place(home: Home, real: Path, number: int) -> Path:
    key = hashlib.sha256(os.fsencode(real)).hexdigest()[:24]
    return home.data / FOLDER / (key if number == 1 else f"{key}-{number}")


def _record(place: Path, real: Path, *, quota_bytes: int, quota_files: int) -> Record:
    return Record(
        id=place.name,
        source=str(real),
        mode="copy",
        mode_reason=IN_PLACE,
        created=datetime.now(UTC).isoformat(),
        quota_bytes=quota_bytes,
        quota_files=quota_files,
    )


def place_number(record: Record) -> int:
    """The number of the data directory that a workspace in place has opened."""
    return int(record.id.partition("-")[2] or 1)
