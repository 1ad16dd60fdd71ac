"""An open workspace: the interface for the packages above and the command line.

Every change takes a snapshot first, so that it can be undone. Blocking work runs in threads, one change at a
time. Cancelled callers and `close` wait for the thread, so that no change is left half made.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import structlog

from hutch.domain.errors import Denied, HutchError, LimitReached, NotFound, Unavailable
from hutch.edit.atomic_apply import apply_patch, edit_file
from hutch.edit.edit_result import EditResult
from hutch.edit.file_operation_types import Announcement, FileChange, Move, Operation, Write
from hutch.forge.host_git import Git
from hutch.jail.interface import Jail
from hutch.jail.jail_directory_and_namespaces import JailLocation
from hutch.jail.policy import Policy
from hutch.snapshots import comparison
from hutch.snapshots.garbage_collection import MAX_PACKS, DiskUsage, disk_usage, drop_oldest, shrink_to_fit
from hutch.snapshots.git_storage import Snapshot
from hutch.snapshots.restore import RestoreResult, restore
from hutch.snapshots.snapshot import NOTHING_ANNOUNCED, Content, Snapshots
from hutch.system.lazy_dataclass import dataclass
from hutch.system.uncancellable_work import run_in_thread, wait_until_done
from hutch.workspace import ripgrep_search
from hutch.workspace.change_observer_interface import ChangeObserver
from hutch.workspace.changes_from_operation_result import announced_by, are_plain_writes
from hutch.workspace.files.change_watcher import ChangeWatcher
from hutch.workspace.files.directory_listing import Page
from hutch.workspace.files.file_reads_and_changes import CheckPath, Files, PathStatus
from hutch.workspace.files.partial_read import MAX_READ_BYTES, Binary, Bytes, Lines
from hutch.workspace.lifecycle.workspace_mount import WorkspaceMount
from hutch.workspace.lifecycle.workspace_record_and_directories import Home, Record
from hutch.workspace.link_resolution import resolve_links
from hutch.workspace.replaced_file_versions import store_replaced
from hutch.workspace.rule_based_search_filter import IsHidden
from hutch.workspace.search_match_redaction import Mask
from hutch.workspace.workspace_quota import Quota

Args = ParamSpec("Args")
Result = TypeVar("Result")
EditFields = Sequence[Mapping[str, Any]]  # as tools and requests give them
LARGE_ENTRIES = 500  # of a workspace: then a request or tool that writes a file does not wait for a scan
COMPARING = "comparing"  # in a workspace's directory: temporary git directories
EMPTY_USAGE = DiskUsage(0, 0)
logger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SnapshotLimits:
    """How many snapshots are stored, and their total size. The newest is always kept."""

    snapshots: int = 4000
    bytes: int = 5 << 30


DEFAULT = SnapshotLimits()


@dataclass(slots=True)
class Workspace:
    """See `workspace_opening.open_mounted`."""

    home: Home
    directory: Path  # where it is stored on the host
    mount: WorkspaceMount
    git: Git
    files: Files
    snapshots: Snapshots
    quota: Quota
    limits: SnapshotLimits
    observer: ChangeObserver | None = None
    large_entries: int = LARGE_ENTRIES
    comparing: asyncio.Lock = field(default_factory=asyncio.Lock)  # held while the current files are compared
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _working: set[asyncio.Task[Any]] = field(default_factory=set)
    _is_closed: bool = False
    _compacting: asyncio.Task[None] | None = None
    _needs_compacting: bool = False
    _held: DiskUsage = EMPTY_USAGE  # after the last compaction
    _pinned: set[int] = field(default_factory=set)  # snapshots that current users started from

    @property
    def record(self) -> Record:
        return self.mount.record

    @property
    def place(self) -> JailLocation:
        """Where to open a jail for it."""
        return self.mount.place

    async def policy(self, policy: Policy) -> Policy:
        """The policy of a jail here, limited to the remaining quota."""
        return await self.work(self.quota.cap_policy, policy)

    async def entries(
        self,
        path: str = "",
        *,
        recursive: bool = False,
        ignores: bool = False,
        cursor: str | None = None,
        limit: int = 1000,
    ) -> Page:
        list_directory = partial(self.files.list_directory, path, recursive=recursive, ignores=ignores)
        return await self.work(list_directory, cursor=cursor, limit=limit)

    async def resolve_links(self, path: str, roots: Sequence[str] = ()) -> str:
        """The path without links and `..`."""
        return await self.work(resolve_links, self.files.tree, path, roots)

    async def stat(self, path: str, *, hashed: bool = False) -> PathStatus:
        return await self.work(self.files.stat, path, hashed=hashed)

    async def read(self, path: str, first: int | None = None, last: int | None = None) -> Lines | Binary:
        """Lines of a text file; for other files, their kind."""
        return await self.work(self.files.read, path, first, last)

    async def read_range(self, path: str, start: int = 0, length: int = MAX_READ_BYTES) -> Bytes:
        return await self.work(self.files.read_range, path, start, length)

    async def read_small(self, path: str) -> bytes | None:
        """A whole file; None if it does not exist or cannot be read."""
        try:
            return (await self.work(self.files.read_bytes, path))[0]
        except (NotFound, Denied):
            return None

    async def write(self, path: str, data: bytes, *, if_hash: str | None = None) -> FileChange:
        """Write a file; with `if_hash`, only if it still has that hash."""
        return await self._change(f"before writing {path}", self._write, path, data, if_hash)

    async def create(self, path: str, data: bytes = b"") -> FileChange:
        return await self._change(f"before creating {path}", self._write, path, data, None, create=True)

    async def make_directory(self, path: str) -> Sequence[FileChange]:
        return await self._change(f"before making {path}", self.files.make_directory, path)

    async def move(
        self, path: str, to: str, *, replace: bool = False, check: CheckPath | None = None
    ) -> Sequence[FileChange]:
        move = partial(self.files.move, path, to, replace=replace, check=check)
        return await self._change(f"before moving {path}", move)

    async def delete(self, path: str, *, check: CheckPath | None = None) -> Sequence[FileChange]:
        """Delete a file or directory, after a snapshot unless the quota is used up."""
        async with self._lock:
            try:
                await self.work(self._take, f"before deleting {path}")
            except LimitReached as error:
                logger.warning("deleted without a snapshot: undo is impossible", path=path, why=str(error))
            self._compact_soon()
            return await self.work(partial(self._observed, self.files.delete, path, check=check))

    async def edit(self, path: str, edits: EditFields, *, if_hash: str | None = None) -> EditResult:
        """Make all edits in one file, or none; with `if_hash`, only if it still has that hash."""
        return await self._change(f"before editing {path}", edit_file, self, path, edits, if_hash)

    async def apply_patch(self, patch: str) -> EditResult:
        """Apply a whole patch, or nothing."""
        return await self._change("before a patch", apply_patch, self, patch)

    async def grep(
        self,
        jail: Jail,
        query: ripgrep_search.GrepQuery,
        *,
        ignore: Sequence[str] = (),
        hidden: IsHidden | None = None,
        mask: Mask | None = None,
    ) -> ripgrep_search.GrepResult:
        query = replace(query, path=await self._inside(jail, query.path))
        return await ripgrep_search.grep(jail, query, ignore=ignore, hidden=hidden, mask=mask)

    async def glob(
        self,
        jail: Jail,
        pattern: str,
        *,
        path: str = "",
        limit: int = 200,
        offset: int = 0,
        directories: bool = False,
        ignore: Sequence[str] = (),
        hidden: IsHidden | None = None,
    ) -> ripgrep_search.GlobResult:
        find = partial(ripgrep_search.glob, jail, pattern, modified_ns=self._modified_ns, limit=limit)
        path = await self._inside(jail, path)
        return await find(path=path, directories=directories, offset=offset, ignore=ignore, hidden=hidden)

    async def snapshot(self, reason: str, *, named: bool = False) -> Snapshot:
        """Take a snapshot; returns the newest one if nothing has changed since, unless a user `named` it."""
        async with self._lock:
            taken = await self.work(self._take, reason, named=named)
            self._compact_soon()
        if not self._pinned:
            self._pinned.add(taken.id)
        return taken

    def pin(self, number: int) -> None:
        """Protect a snapshot from removal while this workspace is open."""
        self._pinned.add(number)

    async def list_snapshots(self) -> Sequence[Snapshot]:
        return await self.work(self.snapshots.list)

    async def read_snapshot(self, number: int, path: str, start: int, length: int) -> Bytes:
        """Bytes of a file as it is in a snapshot."""
        return await self.work(self._read_snapshot, number, path, start, length)

    async def changes(self, old: int, new: int, *, path: str = "") -> Sequence[comparison.Change]:
        """The files that differ between two snapshots, with line counts."""
        get = self.snapshots.get
        return await comparison.changes(self.git, self.snapshots.storage, get(old), get(new), path=path)

    async def patch(
        self, old: int, new: int, *, path: str = "", max_bytes: int = 4 << 20
    ) -> tuple[bytes, bool]:
        """The difference as a patch, and whether it was truncated."""
        get, storage = self.snapshots.get, self.snapshots.storage
        return await comparison.patch(self.git, storage, get(old), get(new), path=path, max_bytes=max_bytes)

    async def restore(self, number: int, path: str = "") -> RestoreResult:
        """Restore everything, or only `path`, after a snapshot of the current state."""
        async with self._lock:
            restored = await self.work(self._restore, number, path)
            self._compact_soon()
        return restored

    async def compact(self) -> None:
        """Pack snapshots if worthwhile, and remove the oldest beyond the size limit."""
        storage = self.snapshots.storage
        if self._is_due(await run_in_thread(disk_usage, storage)):
            pinned = frozenset(self._pinned)
            self._held = await shrink_to_fit(self.git, storage, max_bytes=self.limits.bytes, pinned=pinned)

    def watcher(self) -> ChangeWatcher:
        """A watcher of its directories, for the caller to start and close."""
        return ChangeWatcher(self.mount.directory, skipped=self.record.layer_roots)

    # For the edit engine, in a thread.

    def read_bytes(self, path: str) -> tuple[bytes, int]:
        return self.files.read_bytes(path)

    def change(self, operations: Sequence[Operation]) -> list[FileChange]:
        more = sum(len(each.data or b"") for each in operations if isinstance(each, Write | Move))
        new = sum(isinstance(each, Write) and each.before is None for each in operations)
        self.quota.check_space(more_bytes=more, more_files=new)
        return self.files.change(operations)

    async def work(self, work: Callable[Args, Result], *args: Args.args, **kwargs: Args.kwargs) -> Result:
        """Run a function in a thread. Cancellation and `close` wait until it has ended."""
        if self._is_closed:
            raise Unavailable("The workspace is closed. Open it again.")
        working = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
        self._working.add(working)
        working.add_done_callback(self._working.discard)
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            await wait_until_done(working)
            raise

    async def close(self, *, compact_s: float) -> None:
        """Wait for running work, and up to `compact_s` for compaction. Later calls fail."""
        self._is_closed = True
        if self._compacting is not None:
            await asyncio.wait([self._compacting], timeout=compact_s)
            self._compacting.cancel()
            await wait_until_done(self._compacting)
        await wait_until_done(*self._working)

    async def _change(
        self, reason: str, work: Callable[Args, Result], *args: Args.args, **kwargs: Args.kwargs
    ) -> Result:
        async with self._lock:
            if not self._is_quick(work):  # else the version that is replaced is stored
                await self.work(self._take, reason)
            self._compact_soon()
            return await self.work(partial(self._observed, work, *args, **kwargs))

    async def change_observed(
        self, work: Callable[Args, Result], *args: Args.args, **kwargs: Args.kwargs
    ) -> Result:
        async with self._lock:  # the result says what was changed
            return await self.work(partial(self._observed, work, *args, **kwargs))

    def _compact_soon(self) -> None:
        if self._needs_compacting and (self._compacting is None or self._compacting.done()):
            self._needs_compacting = False
            self._compacting = asyncio.ensure_future(self._compact())

    async def _compact(self) -> None:
        try:
            await self.compact()
        except (HutchError, OSError) as error:
            logger.warning("snapshots could not be compacted", error=str(error))
            # Do not retry before there is more.
            self._held = await run_in_thread(disk_usage, self.snapshots.storage)

    def _is_due(self, now: DiskUsage) -> bool:
        more = now.packs - self._held.packs
        max_bytes = max(self.limits.bytes, self._held.bytes + self._held.bytes // 8)
        return more >= MAX_PACKS or now.bytes > max_bytes

    def _write(self, path: str, data: bytes, if_hash: str | None, *, create: bool = False) -> FileChange:
        self.quota.check_space(more_bytes=len(data), more_files=1)
        return self.files.create(path, data) if create else self.files.write(path, data, if_hash=if_hash)

    def _observed(self, work: Callable[Args, Result], *args: Args.args, **kwargs: Args.kwargs) -> Result:
        """Change files. With an observer, a snapshot of the result follows at once: the log refers to it."""
        self.files.announced = NOTHING_ANNOUNCED
        keep = partial(store_replaced, self.snapshots, self.mount.directory)
        self.files.before_replacing = keep if self.observer is not None else None
        result = work(*args, **kwargs)
        announced = announced_by(result, self.files.announced)
        if self.observer is not None and announced.changes:
            self.observer.announce(announced.changes)
            try:
                reason = f"after changing {announced.changes[0].path}"
                if not (self._is_quick(work) and self._add_to_newest(announced, reason)):
                    self._take(reason, announced=announced)
            except HutchError as error:  # the files are changed: that is recorded without a snapshot
                logger.warning("changed without a snapshot", error=str(error))
            finally:
                self.observer.settle()
        self.files.announced = NOTHING_ANNOUNCED  # frees the contents
        return result

    def _read_snapshot(self, number: int, path: str, start: int, length: int) -> Bytes:
        found, position = bytearray(), 0
        for chunk in self.snapshots.read(number, path):
            found += chunk[max(0, start - position) : max(0, start + length - position)]
            position += len(chunk)
        return Bytes(path, bytes(found), start, position)

    def _take(
        self, reason: str, *, named: bool = False, announced: Announcement = NOTHING_ANNOUNCED
    ) -> Snapshot:
        content = snapshot_content(self.mount)
        with self.files.exclusive():
            taken = self.snapshots.take(content, reason, named=named, announced=announced)
        self._trim()
        return taken

    def _is_quick(self, work: Callable[..., Any]) -> bool:
        """True if this is a write of files in a large workspace, whose other changes are recorded later."""
        is_large = self.snapshots.scanned_entries > self.large_entries
        return self.observer is not None and is_large and work in (self._write, edit_file, apply_patch)

    def _add_to_newest(self, announced: Announcement, reason: str) -> bool:
        """Take a snapshot of the newest one and written files. False if that is not possible."""
        with self.files.exclusive():
            is_possible = are_plain_writes(announced)
            return is_possible and self.snapshots.take_versions(announced, {}, reason) is not None

    def _restore(self, number: int, path: str) -> RestoreResult:
        if self.observer is not None:
            self._take(f"before restoring snapshot {number}")  # so that the changes until now are not its own
            self.observer.announce_restore(number, path)
        try:
            with self.files.exclusive():
                restored = restore(self.snapshots, snapshot_content(self.mount), number, path)
        finally:
            if self.observer is not None:
                self.observer.settle()
        self._trim()  # it takes snapshots, too
        return restored

    def _trim(self) -> None:
        """Remove snapshots beyond the limit, and check whether to pack the others."""
        storage = self.snapshots.storage
        drop_oldest(storage, keep=self.limits.snapshots, pinned=frozenset(self._pinned))
        self._needs_compacting = self._is_due(disk_usage(storage))

    async def _inside(self, jail: Jail, path: str) -> str:
        """A path without links: ripgrep would follow a link in its argument."""
        return await self.resolve_links(
            ripgrep_search.to_workspace_path(jail, path), (jail.workspace, *jail.policy.also_at)
        )

    def _modified_ns(self, path: str) -> int:
        try:
            return self.mount.directory.stat(path).st_mtime_ns
        except (NotFound, Denied):
            return 0  # deleted in the meantime


def snapshot_content(mount: WorkspaceMount) -> Content:
    """The content that snapshots of a mounted workspace contain."""
    namespaces = mount.place.namespaces
    by_root = namespaces is not None and namespaces.user is None
    return Content(mount.directory, mount.upper, "trusted.overlay." if by_root else "user.overlay.")
