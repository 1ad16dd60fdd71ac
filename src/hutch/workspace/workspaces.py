"""Prepares, opens, forks and removes the workspaces of an installation."""

import asyncio
import re
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from hutch.domain.errors import NotFound
from hutch.domain.user_given_starter_files import StarterFiles
from hutch.forge.git_progress import OnProgress
from hutch.forge.host_git import Git
from hutch.forge.repo_url import RepoUrl
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.admission.local_repository_access import Repositories
from hutch.workspace.lifecycle.in_place_workspace import IN_PLACE, open_in_place, open_recorded_place
from hutch.workspace.lifecycle.repository_reader_in_jail import JailedRepository, open_jailed_repository
from hutch.workspace.lifecycle.workspace_and_cache_removal import (
    remove_leftovers,
    remove_unused,
    remove_workspace,
)
from hutch.workspace.lifecycle.workspace_builder import Complete, prepare, same_record
from hutch.workspace.lifecycle.workspace_filling import Options
from hutch.workspace.lifecycle.workspace_mount import open_workspace
from hutch.workspace.lifecycle.workspace_record_and_directories import Home, Record
from hutch.workspace.lifecycle.workspace_size_and_last_use import disk_bytes, last_used_ms
from hutch.workspace.mounted_workspace_opening import open_mounted
from hutch.workspace.workspace import SnapshotLimits, Workspace
from hutch.workspace.workspace_fork import fork

Clean = Callable[[str], str]
SESSION_PART = re.compile(r"[0-7][0-9a-hjkmnp-tv-z]{25}")


@dataclass(frozen=True, slots=True)
class BaseLimits:
    """Maximum size of cached repositories, and days since their last use."""

    bytes: int
    days: float


@dataclass(frozen=True, slots=True)
class Workspaces:
    """Every workspace below one directory."""

    home: Home
    repositories: Repositories
    git: Git
    options: Options
    snapshot_limits: SnapshotLimits
    bases: BaseLimits
    complete: Complete = same_record  # applies the settings of the repository to a new workspace

    async def prepare(
        self,
        source: RepoUrl,
        *,
        id: str | None = None,
        revision: str | None = None,
        uncommitted: bool = False,
        plain: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Record:
        """Create a workspace from a directory or an allowed address, then remove unused bases.

        With `plain`, a directory without git is accepted and copied whole.
        """
        await asyncio.to_thread(self.home.make)
        record = await prepare(
            self.home,
            id or new_workspace_id(source.name),
            source,
            git=replace(self.git, file_bytes=int(self.bases.bytes)),
            revision=revision,
            uncommitted=uncommitted,
            options=self.options,
            on_progress=on_progress,
            pin_path=partial(self.repositories.pin, unrestricted=source.account, plain=plain),
            complete=self.complete,
        )
        await self.collect_bases()
        return record

    async def prepare_from_files(self, files: StarterFiles, *, id: str) -> Record:
        """Create a workspace with a few files, or an empty one."""
        await asyncio.to_thread(self.home.make)
        return await prepare(self.home, id, files, git=self.git, options=self.options, complete=self.complete)

    async def collect_bases(self) -> None:
        """Remove unused bases and mirrors, and leftovers of dead processes."""
        await asyncio.to_thread(remove_leftovers, self.home)
        await asyncio.to_thread(
            remove_unused, self.home, max_bytes=self.bases.bytes, max_days=float(self.bases.days)
        )

    @asynccontextmanager
    async def open(self, id: str, *, clean: Clean = str) -> AsyncIterator[Workspace]:
        """Open a workspace for this process only. `clean` removes secrets from what is stored."""
        opened = await open_workspace(self.home, id)
        directory = self.home.workspace(id)
        async with open_mounted(
            self.home, opened, directory, self.git, limits=self.snapshot_limits, clean=clean
        ) as workspace:
            yield workspace

    @asynccontextmanager
    async def open_directory(
        self,
        directory: Path,
        *,
        clean: Clean = str,
        beside_others: bool = False,
        number: int = 1,
        excluding: Collection[int] = (),
    ) -> AsyncIterator[Workspace]:
        """Open a user's directory in place; with `beside_others` even if other processes have it open. Each
        of these has snapshots of its own, with a `number`, which is none of `excluding`."""
        await asyncio.to_thread(self.home.make)
        opened, place = await open_in_place(
            self.home,
            directory,
            quota_bytes=self.options.quota_bytes,
            quota_files=self.options.quota_files,
            beside_others=beside_others,
            number=number,
            excluding=excluding,
        )
        async with open_mounted(
            self.home, opened, place, self.git, limits=self.snapshot_limits, clean=clean
        ) as workspace:
            yield workspace

    @asynccontextmanager
    async def open_recorded(self, directory: Path, *, number: int) -> AsyncIterator[Workspace]:
        """The snapshots of a user's directory, to read them, also while processes have it open. `number` says
        which of these processes took them."""
        with tempfile.TemporaryDirectory(prefix="hutch-") as scratch:
            place = Path(scratch)
            mount = await asyncio.to_thread(open_recorded_place, self.home, directory, number, place)
            async with open_mounted(
                self.home, mount, place, self.git, limits=self.snapshot_limits
            ) as workspace:
                yield workspace

    @asynccontextmanager
    async def open_repository(self, path: Path, unrestricted: bool) -> AsyncIterator[JailedRepository | None]:
        """Open a repository of this machine in a jail, read-only; None for a directory without git."""
        async with self.repositories.open(path, unrestricted=unrestricted) as pinned:
            if pinned.layout is None:
                yield None
                return
            scratch = self.home.data / "empty"  # nothing is ever written to it
            await asyncio.to_thread(self.home.make)
            await asyncio.to_thread(scratch.mkdir, mode=0o755, exist_ok=True)
            async with open_jailed_repository(pinned.layout, scratch) as local:
                yield local

    async def records(self) -> list[Record]:
        return await asyncio.to_thread(self.home.records)

    async def find(self, id: str) -> Record | None:
        """The record of a workspace; None if it does not exist."""
        try:
            return await asyncio.to_thread(Record.read, self.home.workspace(id))
        except NotFound:
            return None

    async def disk_bytes(self, id: str, changed_ms: int) -> int:
        """The size of a closed workspace on disk; `changed_ms` is its last change."""
        return await asyncio.to_thread(disk_bytes, self.home.workspace(id), changed_ms)

    async def last_used_ms(self, id: str) -> int:
        return await asyncio.to_thread(last_used_ms, self.home.workspace(id))

    async def remove(self, id: str) -> None:
        """Remove a workspace with its snapshots."""
        if not self.home.workspace(id).exists():
            known = [record.id for record in await self.records()]
            raise NotFound(f"There is no workspace '{id}'. There are: {', '.join(known) or 'none'}.")
        await remove_workspace(self.home, id)


async def fork_workspace(workspace: Workspace, number: int, id: str | None = None) -> Record:
    """Create a workspace with the content of a snapshot of this one."""
    record = workspace.record
    about = Path(record.source or "").name if record.mode_reason == IN_PLACE else record.id.rsplit("-", 1)[0]
    return await fork(workspace, number, id or new_workspace_id(about))


def session_workspace_id(session_id: str) -> str:
    """The workspace id of a session; it never changes."""
    return f"session-{session_id.removeprefix('ses_')}"


def session_of_workspace(id: str) -> str:
    """The session of a workspace; empty if it has none."""
    kind, _, rest = id.partition("-")
    return f"ses_{rest}" if kind == "session" and SESSION_PART.fullmatch(rest) else ""


def new_workspace_id(about: str) -> str:
    """A new readable id."""
    words = re.sub(r"[^a-zA-Z0-9]+", "-", about).strip("-").lower()[:40] or "workspace"
    return f"{words}-{secrets.token_hex(3)}"
