"""Fills a workspace with content: shared blocks, a copy, or layers over a base."""

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeVar

from hutch.domain.byte_size_formatting import readable_size
from hutch.domain.errors import Unavailable
from hutch.domain.user_given_starter_files import StarterFiles
from hutch.forge.git_progress import OnProgress, Progress
from hutch.snapshots.confined_directory import Directory
from hutch.snapshots.snapshot import Snapshots
from hutch.system import uncancellable_work
from hutch.system.lazy_dataclass import dataclass
from hutch.system.uncancellable_work import run_in_thread
from hutch.workspace.files.tree_copy import CopyResult, can_reflink, copy_base, copy_tree
from hutch.workspace.lifecycle.shared_base_checkout import Base, open_index, tree_path
from hutch.workspace.lifecycle.uncommitted_changes import copy_changes
from hutch.workspace.lifecycle.workspace_and_cache_removal import LOCK
from hutch.workspace.lifecycle.workspace_mount import mount_directory
from hutch.workspace.lifecycle.workspace_record_and_directories import Home, Mode, Record, Storage
from hutch.workspace.workspace_quota import Usage, quota_error

ModeOption = Literal["auto", "copy", "reflink", "overlay"]
SMALL_FILES, SMALL_BYTES = 2_000, 50 * 1024 * 1024  # above this, layers are faster than a copy
GIB = 1024**3
Result = TypeVar("Result")

_layers: dict[Path, str] = {}  # by data directory: "" if layers work, or why not


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How workspaces are created: the `workspace.*` settings."""

    mode: ModeOption = "auto"
    storage: Storage = "disk"
    quota_bytes: int = 5 * GIB
    quota_files: int = 1_000_000


@dataclass(frozen=True, slots=True)
class FillContext:
    """A workspace that is being created, and its options."""

    home: Home
    place: Path
    options: Options
    on_progress: OnProgress

    def record(self, mode: Mode, reason: str, *, source: str = "") -> Record:
        options = self.options
        return Record(
            id="",
            source=source,
            mode=mode,
            mode_reason=reason,
            created="",
            quota_bytes=options.quota_bytes,
            quota_files=options.quota_files,
        )

    def check(self, copied: CopyResult) -> None:
        """Report progress. Raises an error when the quota is exceeded."""
        self.check_size(copied.bytes, copied.files)
        self.on_progress(Progress("Copying files", copied.files))

    def check_size(self, total: int, files: int) -> None:
        if total > self.options.quota_bytes or files > self.options.quota_files:
            raise quota_error(self.record("copy", ""), Usage(total, files))


async def fill_from_base(
    filling: FillContext, base: Base, *, changed: Directory | None = None, changes: Sequence[str] = ()
) -> Record:
    """Fill from a base, and add the uncommitted changes of a directory."""
    mode, reason = await run_in_thread(choose_mode, filling, base)
    record = replace(
        filling.record(mode, reason, source=base.source),
        base=base.key,
        commit=base.commit,
        branch=base.branch,
        notes=base.notes,
        storage=filling.options.storage if mode == "overlay" else "disk",
    )
    if mode == "overlay":
        await run_in_thread(make_layers, filling.place)
    else:
        filling.check_size(base.bytes, base.files)
        filling.on_progress(Progress("Copying files", 0, base.files))
        await copy_base(tree_path(filling.home, base.key), filling.place / "tree")
        await finish_or_stop(lambda check: _adopt_first_snapshot(filling, base))
    if changed is not None and changes:
        found = await finish_or_stop(lambda check: _copy_changes(filling, record, changed, changes, check))
        record = replace(record, notes=(*record.notes, *_note_skipped(found)))
    return record


async def copy_directory(filling: FillContext, root: Path, source: Directory) -> Record:
    """Copy a directory without git completely; `root` is its path."""
    found = await finish_or_stop(lambda check: _copy(filling, source, check))
    record = filling.record("copy", "a directory without git is copied whole", source=str(root))
    return replace(record, notes=tuple(_note_skipped(found)))


async def write_files(filling: FillContext, files: StarterFiles) -> Record:
    """Write a few files."""
    filling.check_size(sum(len(file.content) for file in files.values()), len(files))
    await run_in_thread(_write, filling.place, files)
    return filling.record("copy", "starter files are written")


async def finish_or_stop(work: Callable[[Callable[[], None]], Result]) -> Result:
    """Run work in a thread. It calls `check` regularly, which stops it after a cancellation."""
    stopped = threading.Event()

    def check() -> None:
        if stopped.is_set():
            raise Unavailable("It was cancelled.")

    working = asyncio.ensure_future(asyncio.to_thread(work, check))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        stopped.set()
        await uncancellable_work.wait_until_done(working)
        raise


def choose_mode(filling: FillContext, base: Base) -> tuple[Mode, str]:
    """The mode for a base on this machine, and the reason. Blocks the thread."""
    option, data = filling.options.mode, filling.home.data
    if option in ("auto", "overlay"):
        is_large = base.files > SMALL_FILES or base.bytes > SMALL_BYTES
        if option == "overlay" or filling.options.storage == "memory" or is_large:
            why_not = _try_layers(filling, base)
            if not why_not:
                about = f"{base.files} files, {readable_size(base.bytes)}"
                return "overlay", f"large: {about}" if option == "auto" else "asked for"
            if option == "overlay":
                raise Unavailable(f"workspace.mode is overlay. {why_not}. Set it to auto to use a copy.")
            shares = can_reflink(data)
            return ("reflink" if shares else "copy"), f"large, but there are no layers here: {why_not}"
    if option != "copy" and can_reflink(data):
        return "reflink", "this file system shares blocks between copies"
    if option == "reflink":
        raise Unavailable(
            f"workspace.mode is reflink, which the file system of {data} does not support. Set it to auto."
        )
    size = f"small: {base.files} files, {readable_size(base.bytes)}"
    return "copy", "asked for" if option == "copy" else size


def _try_layers(filling: FillContext, base: Base) -> str:
    """Why layers do not work here; empty if they do. Tested once by a mount."""
    data = filling.home.data
    if data not in _layers:
        make_layers(filling.place)
        record = replace(filling.record("overlay", ""), base=base.key)
        try:
            mount_directory(filling.home, filling.place, record).close()
            _layers[data] = ""
        except Unavailable as error:
            _layers[data] = str(error).rstrip(".")
            for name in ("tree", "work", "upper"):
                _remove_directory(filling.place / name)
        (filling.place / LOCK).unlink(missing_ok=True)
    return _layers[data]


def _adopt_first_snapshot(filling: FillContext, base: Base) -> None:
    """Take the first snapshot of a fresh copy, without reading its files."""
    snapshots = Snapshots(filling.place, base=open_index(filling.home, base.key))
    with Directory.at(filling.place / "tree") as tree:
        snapshots.adopt(tree, "at the start")


def make_layers(place: Path) -> None:
    for name in ("upper", "work", "tree"):
        (place / name).mkdir(exist_ok=True)
        (place / name).chmod(0o755)  # the mode of `upper` becomes that of the workspace


def _remove_directory(path: Path) -> None:
    for below in path.iterdir():
        below.rmdir()
    path.rmdir()


def _copy_changes(
    filling: FillContext,
    record: Record,
    changed: Directory,
    changes: Sequence[str],
    check: Callable[[], None],
) -> CopyResult:
    def check_copied(copied: CopyResult) -> None:
        check()
        filling.check(copied)

    mount = mount_directory(filling.home, filling.place, record)
    try:
        return copy_changes(changed, mount.directory, changes, check_copied)
    finally:
        mount.close()


def _copy(filling: FillContext, source: Directory, check: Callable[[], None]) -> CopyResult:
    def check_copied(copied: CopyResult) -> None:
        check()
        filling.check(copied)

    tree = filling.place / "tree"
    tree.mkdir()
    with Directory.at(tree) as target:
        copied = copy_tree(source, target, on_copied=check_copied)
    filling.check(copied)
    return copied


def _write(place: Path, files: StarterFiles) -> None:
    tree = place / "tree"
    tree.mkdir()
    tree.chmod(0o755)
    with Directory.at(tree) as target:
        for path, file in files.items():
            above = path.rpartition("/")[0]
            if above:
                target.make_directory(above)
            with target.parent(path) as (fd, name):
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                mode = 0o755 if file.executable else 0o644
                with os.fdopen(os.open(name, flags, mode, dir_fd=fd), "wb") as written:
                    written.write(file.content)
                    target.set_owner(written.fileno())


def _note_skipped(copied: CopyResult) -> list[str]:
    if not copied.skipped:
        return []
    shown = ", ".join(ascii(path)[1:-1] for path in copied.skipped[:5])
    more = f" and {len(copied.skipped) - 5} more" if len(copied.skipped) > 5 else ""
    return [f"Devices, sockets and pipes are skipped: {shown}{more}."]
