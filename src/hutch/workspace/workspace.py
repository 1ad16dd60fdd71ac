"""A workspace in use: what the rooms above, and the command line, know of all this.

Whatever changes files here keeps their state first, so that it can be undone. The
work itself blocks and is done in threads; what changes something waits its turn.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from hutch.domain.errors import Denied, NotFound
from hutch.forge.git import Git
from hutch.jail.place import Place
from hutch.jail.policy import Policy
from hutch.jail.seam import Jail
from hutch.workspace import search
from hutch.workspace.directory import Directory
from hutch.workspace.edit.apply import apply_patch, edit_file
from hutch.workspace.edit.edited import Edited
from hutch.workspace.files.files import Files, Status
from hutch.workspace.files.listing import Page
from hutch.workspace.files.ranges import MOST_BYTES, Binary, Bytes, Lines
from hutch.workspace.files.watch import Changed, watching
from hutch.workspace.prepare.base import open_index
from hutch.workspace.prepare.overlay import Opened
from hutch.workspace.prepare.quota import Quota
from hutch.workspace.prepare.record import Home, Record
from hutch.workspace.snapshots import collecting, compare
from hutch.workspace.snapshots.restore import Restored, restore
from hutch.workspace.snapshots.snapshot import Content, Snapshots
from hutch.workspace.snapshots.storage import Snapshot
from hutch.workspace.values import FileChange, Move, Operation, Write

Given = ParamSpec("Given")
Result = TypeVar("Result")


@dataclass(slots=True)
class Workspace:
    """See `open_workspace`."""

    home: Home
    directory: Path  # where it is kept on the host
    opened: Opened
    git: Git
    files: Files
    snapshots: Snapshots
    quota: Quota
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def record(self) -> Record:
        return self.opened.record

    @property
    def place(self) -> Place:
        """Where a jail for it is opened."""
        return self.opened.place

    async def policy(self, policy: Policy) -> Policy:
        """The rules for a jail here: it may add what there is room for."""
        return await asyncio.to_thread(self.quota.held, policy)

    async def entries(
        self,
        path: str = "",
        *,
        recursive: bool = False,
        ignores: bool = False,
        cursor: str | None = None,
        limit: int = 1000,
    ) -> Page:
        return await asyncio.to_thread(
            self.files.list_directory,
            path,
            recursive=recursive,
            ignores=ignores,
            cursor=cursor,
            limit=limit,
        )

    async def stat(self, path: str, *, hashed: bool = False) -> Status:
        return await asyncio.to_thread(self.files.stat, path, hashed=hashed)

    async def read(self, path: str, first: int | None = None, last: int | None = None) -> Lines | Binary:
        """Lines of a text file, or what kind of file it is instead."""
        return await asyncio.to_thread(self.files.read, path, first, last)

    async def read_range(self, path: str, start: int = 0, length: int = MOST_BYTES) -> Bytes:
        return await asyncio.to_thread(self.files.read_range, path, start, length)

    async def read_small(self, path: str) -> bytes | None:
        """A whole file that Hutch itself looks for, None when there is none that can be read."""
        try:
            return (await asyncio.to_thread(self.files.read_bytes, path))[0]
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
        return await self._change(f"before deleting {path}", self.files.delete, path)

    async def edit(self, path: str, edits: Sequence[Mapping[str, Any]]) -> Edited:
        """Make all of these edits in one file, or none."""
        return await self._change(f"before editing {path}", edit_file, self, path, edits)

    async def apply_patch(self, patch: str) -> Edited:
        """Do all that a patch says, or nothing."""
        return await self._change("before a patch", apply_patch, self, patch)

    async def grep(self, jail: Jail, wanted: search.Grep, *, ignore: Sequence[str] = ()) -> search.Found:
        return await search.grep(jail, wanted, ignore=ignore)

    async def glob(
        self, jail: Jail, pattern: str, *, path: str = "", limit: int = 200, ignore: Sequence[str] = ()
    ) -> search.Paths:
        return await search.glob(
            jail, pattern, modified_ns=self._modified_ns, path=path, limit=limit, ignore=ignore
        )

    async def snapshot(self, reason: str) -> Snapshot:
        """Keep the content as it is; the newest snapshot again when nothing has changed since."""
        async with self._turn:
            return await asyncio.to_thread(self._take, reason)

    async def list_snapshots(self) -> Sequence[Snapshot]:
        return await asyncio.to_thread(self.snapshots.list)

    async def changes(self, old: int, new: int, *, path: str = "") -> Sequence[compare.Change]:
        """The files that differ between two snapshots, with how many lines."""
        get = self.snapshots.get
        return await compare.changes(self.git, self.snapshots.storage, get(old), get(new), path=path)

    async def patch(
        self, old: int, new: int, *, path: str = "", most_bytes: int = 4 << 20
    ) -> tuple[bytes, bool]:
        """The same as a patch, and whether it was cut."""
        get, storage = self.snapshots.get, self.snapshots.storage
        return await compare.patch(self.git, storage, get(old), get(new), path=path, most_bytes=most_bytes)

    async def restore(self, number: int, path: str = "") -> Restored:
        """Make everything, or what is at `path`, as it was; the present is kept first."""
        async with self._turn:
            return await asyncio.to_thread(self._restore, number, path)

    async def tidy(self) -> None:
        """Pack the snapshots when there is enough to gain."""
        if await asyncio.to_thread(collecting.is_due, self.snapshots.storage):
            await collecting.collect(self.git, self.snapshots.storage)

    def watch(self) -> AbstractAsyncContextManager[AsyncIterator[Changed]]:
        """What changes while the block lasts, whoever changes it, in batches."""
        return watching(self.opened.directory, hides=self.files.journal.hides)

    # For the edit engine, in a thread: reads as it is, changes within the quota.

    def read_bytes(self, path: str) -> tuple[bytes, int]:
        return self.files.read_bytes(path)

    def change(self, operations: Sequence[Operation]) -> list[FileChange]:
        more = sum(len(each.data or b"") for each in operations if isinstance(each, Write | Move))
        new = sum(isinstance(each, Write) and each.before is None for each in operations)
        self.quota.check_room(more_bytes=more, more_files=new)
        return self.files.change(operations)

    async def _change(
        self, reason: str, work: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs
    ) -> Result:
        async with self._turn:
            await asyncio.to_thread(self._take, reason)
            return await asyncio.to_thread(work, *args, **kwargs)

    def _write(self, path: str, data: bytes, if_hash: str | None) -> FileChange:
        self.quota.check_room(more_bytes=len(data), more_files=1)
        return self.files.write(path, data, if_hash=if_hash)

    def _create(self, path: str, data: bytes) -> FileChange:
        self.quota.check_room(more_bytes=len(data), more_files=1)
        return self.files.create(path, data)

    def _move(self, path: str, to: str, replace: bool) -> Sequence[FileChange]:
        return self.files.move(path, to, replace=replace)

    def _take(self, reason: str) -> Snapshot:
        with self.files.exclusive():
            return self.snapshots.take(content(self.opened), reason)

    def _restore(self, number: int, path: str) -> Restored:
        with self.files.exclusive():
            return restore(self.snapshots, content(self.opened), number, path)

    def _modified_ns(self, path: str) -> int:
        try:
            return self.opened.directory.stat(path).st_mtime_ns
        except (NotFound, Denied):
            return 0  # gone meanwhile


def content(opened: Opened) -> Content:
    """What snapshots of an open workspace are taken of."""
    namespaces = opened.place.namespaces
    by_root = namespaces is not None and namespaces.user is None
    return Content(opened.directory, opened.upper, "trusted.overlay." if by_root else "user.overlay.")


@asynccontextmanager
async def use(home: Home, opened: Opened, directory: Path, git: Git) -> AsyncIterator[Workspace]:
    """The workspace that was opened, until the block is left."""
    try:
        workspace = await asyncio.to_thread(_assemble, home, opened, directory, git)
        yield workspace
    finally:
        await asyncio.shield(asyncio.ensure_future(asyncio.to_thread(opened.close)))


def _assemble(home: Home, opened: Opened, directory: Path, git: Git) -> Workspace:
    journal = directory / "journal"
    journal.mkdir(mode=0o700, exist_ok=True)
    record = opened.record
    index = open_index(home, record.base) if record.base else None
    return Workspace(
        home=home,
        directory=directory,
        opened=opened,
        git=git,
        files=Files(opened.directory, Directory.at(journal)),
        snapshots=Snapshots(directory, base=index),
        quota=Quota(opened),
    )
