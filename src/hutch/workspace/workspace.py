"""A workspace in use: what the rooms above, and the command line, know of all this.

Whatever changes files here keeps their state first, so that it can be undone. The
work itself blocks and is done in threads; what changes something waits its turn. Who
is cancelled waits for the thread, and so does closing: nothing is left half changed.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import structlog

from hutch.domain.errors import Denied, HutchError, LimitReached, NotFound, Unavailable
from hutch.edit.apply import apply_patch, edit_file
from hutch.edit.edit_result import EditResult
from hutch.edit.file_change import FileChange, Move, Operation, Write
from hutch.forge.git import Git
from hutch.jail.interface import Jail
from hutch.jail.location import Place
from hutch.jail.policy import Policy
from hutch.snapshots import comparison
from hutch.snapshots.directory import Directory, to_hutch_error
from hutch.snapshots.garbage_collection import MAX_PACKS, DiskUsage, disk_usage, drop_oldest, shrink_to_fit
from hutch.snapshots.restore import RestoreResult, restore
from hutch.snapshots.snapshot import Clean, Content, Snapshots
from hutch.snapshots.storage import Snapshot
from hutch.system.uninterrupted import run_in_thread, wait_until_done
from hutch.workspace import search
from hutch.workspace.files.files import Files, PathStatus
from hutch.workspace.files.listing import Page
from hutch.workspace.files.partial_read import MAX_READ_BYTES, Binary, Bytes, Lines
from hutch.workspace.files.watch import Changed, watching
from hutch.workspace.link_resolution import resolve_links
from hutch.workspace.match_lines import Mask
from hutch.workspace.preparation.base import open_index
from hutch.workspace.preparation.quota import Quota
from hutch.workspace.preparation.record import Home, Record
from hutch.workspace.preparation.workspace_mount import WorkspaceMount

Args = ParamSpec("Args")
Result = TypeVar("Result")
COMPARING = "comparing"  # in a workspace's directory: git directories that are removed after use
COMPACT_TIMEOUT_S = 10.0  # for how long closing waits until snapshots are tidy
EMPTY_USAGE = DiskUsage(0, 0)
logger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SnapshotLimits:
    """How many snapshots are kept, and what they may take; the newest stays whatever it takes."""

    snapshots: int = 1000
    bytes: int = 5 << 30


DEFAULT_LIMITS = SnapshotLimits()


@dataclass(slots=True)
class Workspace:
    """See `open_workspace`."""

    home: Home
    directory: Path  # where it is kept on the host
    mount: WorkspaceMount
    git: Git
    files: Files
    snapshots: Snapshots
    quota: Quota
    snapshot_limits: SnapshotLimits
    comparing: asyncio.Lock = field(default_factory=asyncio.Lock)  # held while files are compared as they are
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _working: set[asyncio.Task[Any]] = field(default_factory=set)
    _is_closed: bool = False
    _compacting: asyncio.Task[None] | None = None
    _needs_compacting: bool = False
    _held: DiskUsage = EMPTY_USAGE  # after it was last tidied
    _pinned: set[int] = field(default_factory=set)  # where those who use it now have begun

    @property
    def record(self) -> Record:
        return self.mount.record

    @property
    def place(self) -> Place:
        """Where a jail for it is opened."""
        return self.mount.place

    async def policy(self, policy: Policy) -> Policy:
        """The rules for a jail here: it may add what there is room for."""
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
        return await self.work(
            self.files.list_directory,
            path,
            recursive=recursive,
            ignores=ignores,
            cursor=cursor,
            limit=limit,
        )

    async def resolve_links(self, path: str, roots: Sequence[str] = ()) -> str:
        """Where a path leads once links are followed."""
        return await self.work(resolve_links, self.files.tree, path, roots)

    async def stat(self, path: str, *, hashed: bool = False) -> PathStatus:
        return await self.work(self.files.stat, path, hashed=hashed)

    async def read(self, path: str, first: int | None = None, last: int | None = None) -> Lines | Binary:
        """Lines of a text file, or what kind of file it is instead."""
        return await self.work(self.files.read, path, first, last)

    async def read_range(self, path: str, start: int = 0, length: int = MAX_READ_BYTES) -> Bytes:
        return await self.work(self.files.read_range, path, start, length)

    async def read_small(self, path: str) -> bytes | None:
        """A whole file that Hutch itself looks for, None when there is none that can be read."""
        try:
            return (await self.work(self.files.read_bytes, path))[0]
        except (NotFound, Denied):
            return None

    async def write(self, path: str, data: bytes, *, if_hash: str | None = None) -> FileChange:
        """Give a file this content; with `if_hash`, only if it still has that hash."""
        return await self._change(f"before writing {path}", self._write, path, data, if_hash)

    async def create(self, path: str, data: bytes = b"") -> FileChange:
        return await self._change(f"before creating {path}", self._create, path, data)

    async def make_directory(self, path: str) -> Sequence[FileChange]:
        return await self._change(f"before making {path}", self.files.make_directory, path)

    async def move(self, path: str, to: str, *, replace: bool = False) -> Sequence[FileChange]:
        return await self._change(f"before moving {path}", self._move, path, to, replace)

    async def delete(self, path: str) -> Sequence[FileChange]:
        """Delete a file or a directory. It is kept first, unless there is no room: deleting makes some."""
        async with self._lock:
            try:
                await self.work(self._take, f"before deleting {path}")
            except LimitReached as error:
                logger.warning(
                    "deleted without a snapshot, so it cannot be undone", path=path, why=str(error)
                )
            self._compact_soon()
            return await self.work(self.files.delete, path)

    async def edit(self, path: str, edits: Sequence[Mapping[str, Any]]) -> EditResult:
        """Make all of these edits in one file, or none."""
        return await self._change(f"before editing {path}", edit_file, self, path, edits)

    async def apply_patch(self, patch: str) -> EditResult:
        """Do all that a patch says, or nothing."""
        return await self._change("before a patch", apply_patch, self, patch)

    async def grep(
        self,
        jail: Jail,
        wanted: search.GrepQuery,
        *,
        ignore: Sequence[str] = (),
        hidden: search.IsHidden | None = None,
        mask: Mask | None = None,
    ) -> search.GrepResult:
        wanted = replace(wanted, path=await self._inside(jail, wanted.path))
        return await search.grep(jail, wanted, ignore=ignore, hidden=hidden, mask=mask)

    async def glob(
        self,
        jail: Jail,
        pattern: str,
        *,
        path: str = "",
        limit: int = 200,
        offset: int = 0,
        ignore: Sequence[str] = (),
        hidden: search.IsHidden | None = None,
    ) -> search.GlobResult:
        find = partial(search.glob, jail, pattern, modified_ns=self._modified_ns)
        path = await self._inside(jail, path)
        return await find(path=path, limit=limit, offset=offset, ignore=ignore, hidden=hidden)

    async def snapshot(self, reason: str) -> Snapshot:
        """Keep the content as it is; the newest snapshot again when nothing has changed since."""
        async with self._lock:
            taken = await self.work(self._take, reason)
            self._compact_soon()
        if not self._pinned:
            self._pinned.add(taken.id)
        return taken

    def pin(self, number: int) -> None:
        """Keep a snapshot for as long as this is open, however many come after it."""
        self._pinned.add(number)

    async def list_snapshots(self) -> Sequence[Snapshot]:
        return await self.work(self.snapshots.list)

    async def changes(self, old: int, new: int, *, path: str = "") -> Sequence[comparison.Change]:
        """The files that differ between two snapshots, with how many lines."""
        get = self.snapshots.get
        return await comparison.changes(self.git, self.snapshots.storage, get(old), get(new), path=path)

    async def patch(
        self, old: int, new: int, *, path: str = "", most_bytes: int = 4 << 20
    ) -> tuple[bytes, bool]:
        """The same as a patch, and whether it was cut."""
        get, storage = self.snapshots.get, self.snapshots.storage
        return await comparison.patch(self.git, storage, get(old), get(new), path=path, max_bytes=most_bytes)

    async def restore(self, number: int, path: str = "") -> RestoreResult:
        """Make everything, or what is at `path`, as it was; the present is kept first."""
        async with self._lock:
            restored = await self.work(self._restore, number, path)
            self._compact_soon()
        return restored

    async def compact(self) -> None:
        """Pack the snapshots when there is enough to gain; forget the oldest when they take too much."""
        storage = self.snapshots.storage
        if self._is_due(await run_in_thread(disk_usage, storage)):
            pinned = frozenset(self._pinned)
            self._held = await shrink_to_fit(
                self.git, storage, max_bytes=self.snapshot_limits.bytes, pinned=pinned
            )

    def watch(self) -> AbstractAsyncContextManager[AsyncIterator[Changed]]:
        """What changes while the block lasts, whoever changes it, in batches."""
        return watching(self.mount.directory, is_hidden=self.files.journal.is_hidden)

    # For the edit engine, in a thread: reads as it is, changes within the quota.

    def read_bytes(self, path: str) -> tuple[bytes, int]:
        return self.files.read_bytes(path)

    def change(self, operations: Sequence[Operation]) -> list[FileChange]:
        more = sum(len(each.data or b"") for each in operations if isinstance(each, Write | Move))
        new = sum(isinstance(each, Write) and each.before is None for each in operations)
        self.quota.check_space(more_bytes=more, more_files=new)
        return self.files.change(operations)

    async def work(self, work: Callable[Args, Result], *args: Args.args, **kwargs: Args.kwargs) -> Result:
        """Do something in a thread. Neither who is cancelled nor who closes goes on before its end."""
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
        """Wait for what is being done, and for so long until it is tidy. Nothing can be done after."""
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
            await self.work(self._take, reason)
            self._compact_soon()
            return await self.work(work, *args, **kwargs)

    def _compact_soon(self) -> None:
        if self._needs_compacting and (self._compacting is None or self._compacting.done()):
            self._needs_compacting = False
            self._compacting = asyncio.ensure_future(self._compact())

    async def _compact(self) -> None:
        try:
            await self.compact()
        except (HutchError, OSError) as error:
            logger.warning("snapshots could not be tidied", error=str(error))
            # Not again before there is more.
            self._held = await run_in_thread(disk_usage, self.snapshots.storage)

    def _is_due(self, now: DiskUsage) -> bool:
        more = now.packs - self._held.packs
        return more >= MAX_PACKS or now.bytes > max(
            self.snapshot_limits.bytes, self._held.bytes + self._held.bytes // 8
        )

    def _write(self, path: str, data: bytes, if_hash: str | None) -> FileChange:
        self.quota.check_space(more_bytes=len(data), more_files=1)
        return self.files.write(path, data, if_hash=if_hash)

    def _create(self, path: str, data: bytes) -> FileChange:
        self.quota.check_space(more_bytes=len(data), more_files=1)
        return self.files.create(path, data)

    def _move(self, path: str, to: str, replace: bool) -> Sequence[FileChange]:
        return self.files.move(path, to, replace=replace)

    def _take(self, reason: str) -> Snapshot:
        with self.files.exclusive():
            taken = self.snapshots.take(snapshot_content(self.mount), reason)
        self._trim()
        return taken

    def _restore(self, number: int, path: str) -> RestoreResult:
        with self.files.exclusive():
            restored = restore(self.snapshots, snapshot_content(self.mount), number, path)
        self._trim()  # it takes snapshots too
        return restored

    def _trim(self) -> None:
        """Let go of what is too much, and look whether it is time to pack the rest."""
        storage = self.snapshots.storage
        drop_oldest(storage, keep=self.snapshot_limits.snapshots, pinned=frozenset(self._pinned))
        self._needs_compacting = self._is_due(disk_usage(storage))

    async def _inside(self, jail: Jail, path: str) -> str:
        """A path for ripgrep, which would follow a link that it is given, wherever that leads."""
        return await self.resolve_links(
            search.to_workspace_path(jail, path), (jail.workspace, *jail.policy.also_at)
        )

    def _modified_ns(self, path: str) -> int:
        try:
            return self.mount.directory.stat(path).st_mtime_ns
        except (NotFound, Denied):
            return 0  # gone meanwhile


def snapshot_content(mount: WorkspaceMount) -> Content:
    """What snapshots of an open workspace are taken of."""
    namespaces = mount.place.namespaces
    by_root = namespaces is not None and namespaces.user is None
    return Content(mount.directory, mount.upper, "trusted.overlay." if by_root else "user.overlay.")


@asynccontextmanager
async def open_mounted(
    home: Home,
    mount: WorkspaceMount,
    directory: Path,
    git: Git,
    *,
    snapshot_limits: SnapshotLimits = DEFAULT_LIMITS,
    clean: Clean = str,
) -> AsyncIterator[Workspace]:
    """The workspace that was opened, until the block is left. `clean` takes secrets out of what is stored."""
    workspace: Workspace | None = None
    patience_s = 0.0
    held_open = ExitStack()
    held_open.callback(mount.close)
    try:
        workspace = await run_in_thread(_assemble, home, mount, directory, git, snapshot_limits, held_open)
        workspace.snapshots.clean = clean
        yield workspace
        patience_s = COMPACT_TIMEOUT_S
    finally:
        ending = asyncio.ensure_future(_close(workspace, held_open, patience_s))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await wait_until_done(ending)
            raise


async def _close(workspace: Workspace | None, held_open: ExitStack, compact_s: float) -> None:
    if workspace is not None:
        await workspace.close(compact_s=compact_s)
    await asyncio.to_thread(held_open.close)


def _assemble(
    home: Home,
    mount: WorkspaceMount,
    directory: Path,
    git: Git,
    snapshot_limits: SnapshotLimits,
    held_open: ExitStack,
) -> Workspace:
    record = mount.record
    try:
        place = directory / "journal"
        place.mkdir(mode=0o700, exist_ok=True)
        journal = held_open.enter_context(Directory.at(place))
        shutil.rmtree(directory / COMPARING, ignore_errors=True)  # of a process that was killed
        return Workspace(
            home=home,
            directory=directory,
            mount=mount,
            git=git,
            files=Files(mount.directory, journal),
            snapshots=Snapshots(directory, base=open_index(home, record.base) if record.base else None),
            quota=Quota(mount),
            snapshot_limits=snapshot_limits,
        )
    except OSError as error:
        raise to_hutch_error(error, f"the workspace {record.id}") from error
