"""Restores a backup into an empty place, all or nothing, or only checks it.

Everything is unpacked beside the data directory, checked against its hashes, migrated, and every
log is verified. Only then the directory gets its name. A process that is killed before leaves a
hidden directory that the next restoration removes.
"""

import ctypes
import errno
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from hutch.domain.errors import Conflict, HutchError, LimitReached, Unavailable
from hutch.flows.backups.backup_format import BLOBS, DATA, DATABASE, About, Manifest
from hutch.flows.backups.backup_reader import heads_sha256, open_backup, read_backup
from hutch.flows.backups.backup_writer import Installation, OnProgress, Progress
from hutch.flows.backups.tar_entries import BadBackup, Entry
from hutch.flows.backups.unpacked_files import UnpackedFiles, check_place
from hutch.jail.pid_stamped_names import is_left_over, own_mark
from hutch.store.database import MIGRATIONS
from hutch.store.database_copy import check_copy, open_copy
from hutch.store.stored_logs_check import LogsReport, check_stored_logs
from hutch.system.atomic_file import sync_directory
from hutch.system.file_lock import try_lock
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.lifecycle.workspace_and_cache_removal import discard

PREFIX = ".hutch-restore-"
SERVER_LOCK = "server.lock"

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A backup that was read to its end, and its logs."""

    about: About
    manifest: Manifest
    logs: LogsReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A restored installation."""

    backup: Checked
    moved: tuple[Path, ...]  # where the previous data and settings are now


def verify_backup(path: Path, on_progress: OnProgress) -> Checked:
    """Check a backup without restoring it: all hashes, and every log. Blocks the thread.

    The database and the blobs are unpacked into the directory for temporary files.
    """
    with tempfile.TemporaryDirectory(prefix="hutch-verify-") as place:
        return _unpack(path, Path(place), on_progress, records_only=True)


def restore_backup(
    path: Path, installation: Installation, *, move_aside: bool, on_progress: OnProgress
) -> Restored:
    """Restore a backup. With `move_aside`, what is there gets another name. Blocks the thread."""
    parent = installation.data.parent
    with ExitStack() as stack:
        if _is_used(installation.data):
            if not move_aside:
                raise Conflict(
                    f"There is an installation in {installation.data}. Restore to another directory "
                    "(--into DIR), or give it another name first: --move-aside"
                )
            _lock_server(stack, installation.data)
        stack.enter_context(_made(parent))
        for left in parent.glob(f"{PREFIX}*"):
            if is_left_over(left.name.removeprefix(PREFIX).partition("-")[0]):
                discard(left)
        draft = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{own_mark()}-", dir=parent))
        stack.callback(discard, draft)
        with _explained(parent):
            backup = _unpack(path, draft, on_progress, records_only=False)
            shutil.rmtree(draft / "data/backups", ignore_errors=True)  # the backup is this copy
            on_progress(Progress("Writing to disk", backup.manifest.files, backup.manifest.content_bytes))
            _sync(draft)
            moved = _put_in_place(draft, installation, move_aside=move_aside)
    return Restored(backup=backup, moved=tuple(moved))


class _Unpacking:
    """Unpacks entries below a directory: all, or the database and its blobs."""

    def __init__(self, root: int, *, records_only: bool) -> None:
        self._root = root
        self._records_only = records_only
        self.files: UnpackedFiles | None = None

    def begin(self, about: About) -> None:
        if about.schema not in MIGRATIONS.revisions:
            raise Unavailable(
                f"The backup was made by Hutch {about.hutch[:40]!r}, with schema {about.schema[:40]!r}. "
                f"This Hutch knows schemas up to {MIGRATIONS.revisions[-1]}. Install that version or a newer "
                "one, then try again."
            )
        self.files = UnpackedFiles(self._root, about)

    def add(self, entry: Entry, chunks: Iterator[bytes]) -> None:
        check_place(entry)
        is_record = entry.path in (DATA, DATABASE, BLOBS) or entry.path.startswith(BLOBS + b"/")
        if is_record or not self._records_only:
            assert self.files is not None
            self.files.add(entry, chunks)


def _unpack(path: Path, place: Path, on_progress: OnProgress, *, records_only: bool) -> Checked:
    """Unpack a backup into an empty directory, and check everything that can be checked."""
    root = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    unpacking = _Unpacking(root, records_only=records_only)
    try:
        with open_backup(path) as stream:
            read = read_backup(stream, unpacking, on_progress)
        assert unpacking.files is not None
        unpacking.files.finish()
    finally:
        if unpacking.files is not None:
            unpacking.files.close()
        os.close(root)
    database = place / os.fsdecode(DATABASE)
    if not database.is_file():
        raise BadBackup("The backup has no database.")
    check_copy(database)
    with open_copy(database) as records:
        if heads_sha256(records.heads()) != read.manifest.logs_sha256:
            raise BadBackup("The logs in the database of the backup are not those of its list.")

    def on_log(count: int) -> None:
        on_progress(Progress(f"Verifying {count} of {read.manifest.logs} logs", 0, 0))

    logs = check_stored_logs(database, place / os.fsdecode(BLOBS), on_log)
    return Checked(about=read.about, manifest=read.manifest, logs=logs)


def _is_used(data: Path) -> bool:
    try:
        return any(data.iterdir())
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        raise Conflict(f"{data} is not a directory. Restore to another one: --into DIR") from None


def _lock_server(stack: ExitStack, data: Path) -> None:
    held = try_lock(data / SERVER_LOCK)
    if held is None:
        raise Conflict(f"A server is running on {data}. Stop it first: hutch down")
    stack.callback(os.close, held)


@contextmanager
def _made(directory: Path) -> Iterator[None]:
    """Create a directory and its parents; after an error, those that were created are removed."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for path in missing:
            with suppress(OSError):  # another process uses it now
                path.rmdir()
        raise


@contextmanager
def _explained(parent: Path) -> Iterator[None]:
    try:
        yield
    except HutchError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise LimitReached(
                f"The disk that holds {parent} is full; nothing was restored. Free some space there, or "
                "restore to another disk: --into DIR",
                limit="disk",
            ) from None
        raise Unavailable(f"The backup cannot be restored to {parent}: {error}.") from None


def _sync(draft: Path) -> None:
    """Flush everything to disk before it gets its name."""
    fd = os.open(draft, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(fd) != 0:
            raise OSError(ctypes.get_errno(), "the files could not be written to disk")
    finally:
        os.close(fd)


def _put_in_place(draft: Path, installation: Installation, *, move_aside: bool) -> list[Path]:
    """Give the unpacked directories their names. The data comes last: with it the installation exists."""
    data, settings = installation.data, installation.settings
    new = sorted((draft / "config").iterdir()) if (draft / "config").is_dir() else []
    present = [settings / path.name for path in new if _differs(path, settings / path.name)]
    if present and not move_aside:
        raise Conflict(
            f"There are other settings in {present[0]}. Move them away, or give them another name: "
            "--move-aside"
        )
    stamp = time.strftime("before-restore-%Y%m%dT%H%M%SZ", time.gmtime())
    moved: list[tuple[Path, Path]] = []
    try:
        for path in (*present, *((data,) if _is_used(data) else ())):
            aside = path.with_name(f"{path.name}.{stamp}")
            path.rename(aside)
            moved.append((path, aside))
        settings.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in new:
            _place_settings(path, settings / path.name)
        (draft / "data").rename(data)
    except OSError as error:
        for path, aside in reversed(moved):
            if not path.exists():
                aside.rename(path)
        raise Conflict(
            f"{data} cannot be created ({error.strerror}). Restore to another directory: --into DIR"
        ) from None
    for directory in {data.parent, settings}:
        sync_directory(directory)
    return [aside for _, aside in moved]


def _differs(new: Path, present: Path) -> bool:
    """True if there is something else at this place."""
    if not os.path.lexists(present):
        return False
    if new.is_dir() or not present.is_file():
        return True
    return new.read_bytes() != present.read_bytes()


def _place_settings(new: Path, target: Path) -> None:
    """Copy settings, which may be on another disk, and give them their name in one step."""
    draft = target.with_name(f".{target.name}.{own_mark()}")
    if new.is_dir():
        shutil.copytree(new, draft)
    else:
        shutil.copy2(new, draft)
    draft.replace(target)
