"""Keeps a file of a session and its local copy the same while an editor is open.

A save goes to the session if the file there is still the one that it was made from; otherwise both are
merged line by line. A change by others goes into the local copy if that has no save which the session
lacks. An editor may not have loaded what was written to the local copy, so a save is compared with all
versions that it may have been made from, and belongs to the most similar one. Otherwise it would silently
take back the changes by others.
"""

import asyncio
from collections import Counter
from dataclasses import field

from hutch.cli.editing.local_copy import LocalCopy, Version
from hutch.cli.editing.session_file_access import SessionFile
from hutch.domain.errors import Conflict, LimitReached
from hutch.edit.text_merge import Labels, MergedText, merge_texts
from hutch.forge.host_git import Git
from hutch.system.lazy_dataclass import dataclass

MAX_BYTES = 16 << 20
MAX_VERSIONS = 8
MAX_ATTEMPTS = 10  # when the file changes during a save, again and again
LABELS = Labels("your version", "before", "the session's version")


@dataclass(slots=True)
class Counts:
    """For the summary at the end."""

    saves: int = 0  # written to the session
    merges: int = 0  # of which merged with changes by others
    received: int = 0  # changes by others in the local copy


@dataclass(frozen=True, slots=True)
class Collision:
    """Both sides changed the same lines, or the file cannot be merged."""

    mine: bytes
    theirs: bytes
    marked: bytes | None  # the merge with markers; None if there is none


@dataclass(slots=True)
class FileSync:
    """One file during one edit."""

    remote: SessionFile
    copy: LocalCopy
    git: Git
    versions: list[Version] = field(default_factory=list)  # that the editor may have loaded; newest last
    is_pending: bool = False  # the local copy has a save that the session lacks
    collision: Collision | None = None
    counts: Counts = field(default_factory=Counts)

    async def start(self) -> bool:
        """Write the local copy; True if an interrupted edit is continued."""
        stored = await asyncio.to_thread(self.copy.open)
        if stored and self.copy.read() is not None:
            self.versions, self.is_pending = stored, self.copy.read() != stored[-1]
            return self.is_pending
        found = await self.remote.read()
        _check_size(found)
        self.versions = [found]
        await asyncio.to_thread(self.copy.store_versions, self.versions)
        if found is not None:
            await asyncio.to_thread(self.copy.path.write_bytes, found)
            self.copy.path.chmod(0o600)
        return False

    async def sync(self) -> None:
        """Bring both to the same content if possible; `collision` is set if not."""
        for _ in range(MAX_ATTEMPTS):
            if await self._step():
                return
        raise Conflict("The file changes faster than it can be saved. Save it again.")

    async def overwrite(self, data: bytes) -> None:
        """End a collision: write this content to the session, over the version that collided."""
        assert self.collision is not None
        await self.remote.write(data, over=self.collision.theirs)
        self._remember([data])
        self.is_pending, self.collision = False, None
        self.counts.saves += 1

    async def _step(self) -> bool:
        """One attempt; False if one side changed meanwhile."""
        local = await asyncio.to_thread(self.copy.read)
        if local is not None and local != self.versions[-1]:
            self.is_pending = True  # also if it is too large, or the session cannot be reached now
        _check_size(local)
        remote = await self.remote.read()
        if local is None:  # nothing was saved yet
            return True
        if local == remote:  # what the editor may have loaded before stays known, unless it has saved this
            self._settle(self.versions if local == self.versions[-1] else [local])
            return True
        if not self.is_pending:
            return await self._receive(local, remote)
        ancestor = closest(local, self.versions)
        if remote is None or remote == ancestor:
            return await self._send(local, local, remote)
        base = ancestor if ancestor is not None else b""
        merged = await merge_texts(self.git, ours=local, base=base, theirs=remote, labels=LABELS)
        if merged is None or merged.conflicts:
            self.collision = Collision(local, remote, None if merged is None else merged.data)
            return True
        return await self._send_merged(local, merged, remote)

    async def _receive(self, local: bytes, remote: Version) -> bool:
        """Write a change by others to the local copy. A deleted file stays in the editor."""
        if remote is None:
            return True
        _check_size(remote)
        if not await asyncio.to_thread(self.copy.replace, remote, over=local):
            return False
        self.counts.received += 1
        self._remember([*self.versions, remote])
        return True

    async def _send(self, local: bytes, data: bytes, remote: Version) -> bool:
        try:
            await self.remote.write(data, over=remote)
        except Conflict:
            return False
        self.counts.saves += 1
        if data == local:
            self._settle([local])
        return True

    async def _send_merged(self, local: bytes, merged: MergedText, remote: bytes) -> bool:
        if merged.data != remote and not await self._send(local, merged.data, remote):
            return False
        self.counts.merges += 1
        if not await asyncio.to_thread(self.copy.replace, merged.data, over=local):
            # The editor has saved again. That save was made from this one, or from a merge before.
            self._settle([*self.versions, local])
            self.is_pending = True
            return False
        self._settle([local, merged.data])
        return True

    def _settle(self, versions: list[Version]) -> None:
        self.is_pending, self.collision = False, None
        self._remember(versions)

    def _remember(self, versions: list[Version]) -> None:
        if versions[-MAX_VERSIONS:] != self.versions:
            self.versions = versions[-MAX_VERSIONS:]
            self.copy.store_versions(self.versions)


def closest(text: bytes, versions: list[Version]) -> Version:
    """The version that a text was most likely made from: the most similar one, and of these the newest."""
    return min(reversed(versions), key=lambda version: _distance(text, version or b""))


def _distance(one: bytes, other: bytes) -> int:
    """The number of lines that only one of them has; less than any if they are the same."""
    if one == other:
        return -1
    lines, others = Counter(one.splitlines()), Counter(other.splitlines())
    return (lines - others).total() + (others - lines).total()


def _check_size(data: Version) -> None:
    if data is not None and len(data) > MAX_BYTES:
        raise LimitReached(
            f"The file has {len(data):,} bytes, and `hutch edit` takes up to {MAX_BYTES:,}. Use "
            "`hutch files get` and `hutch files put`.",
            limit="edit_bytes",
        )
