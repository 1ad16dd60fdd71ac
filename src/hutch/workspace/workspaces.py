"""The workspaces of an installation: prepared, opened, forked and removed."""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from hutch.domain.errors import NotFound
from hutch.forge.git import Git
from hutch.forge.progress import OnProgress
from hutch.forge.repo_url import RepoUrl
from hutch.workspace.admission.repositories import Repositories
from hutch.workspace.fork import fork
from hutch.workspace.preparation.builder import prepare
from hutch.workspace.preparation.filler import Options
from hutch.workspace.preparation.in_place_workspace import IN_PLACE, open_in_place
from hutch.workspace.preparation.record import Home, Record
from hutch.workspace.preparation.removal import remove_leftovers, remove_unused, remove_workspace
from hutch.workspace.preparation.workspace_mount import open_workspace
from hutch.workspace.workspace import SnapshotLimits, Workspace, open_mounted

Clean = Callable[[str], str]
SESSION_PART = re.compile(r"[0-7][0-9a-hjkmnp-tv-z]{25}")


@dataclass(frozen=True, slots=True)
class BaseLimits:
    """How much may be kept of copies of repositories, and for how long after their last use."""

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
        """Make a workspace of a directory or an address that may be reached; then drop what is too old.

        `plain` says that it may be a directory without git, which is copied whole.
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
        )
        await self.collect_bases()
        return record

    async def prepare_empty(self, *, id: str | None = None) -> Record:
        """Make a workspace with nothing in it."""
        await asyncio.to_thread(self.home.make)
        options = Options(quota_bytes=self.options.quota_bytes, quota_files=self.options.quota_files)
        return await prepare(self.home, id or new_workspace_id("empty"), {}, git=self.git, options=options)

    async def collect_bases(self) -> None:
        """Drop copies of repositories that are too old or too many, and what dead processes left."""
        await asyncio.to_thread(remove_leftovers, self.home)
        await asyncio.to_thread(
            remove_unused, self.home, max_bytes=self.bases.bytes, max_days=float(self.bases.days)
        )

    @asynccontextmanager
    async def open(self, id: str, *, clean: Clean = str) -> AsyncIterator[Workspace]:
        """A workspace by its id, for this process alone; `clean` takes secrets out of what is stored."""
        opened = await open_workspace(self.home, id)
        directory = self.home.workspace(id)
        async with open_mounted(
            self.home, opened, directory, self.git, limits=self.snapshot_limits, clean=clean
        ) as workspace:
            yield workspace

    @asynccontextmanager
    async def open_directory(self, directory: Path, *, clean: Clean = str) -> AsyncIterator[Workspace]:
        """A person's own directory, worked on in place."""
        await asyncio.to_thread(self.home.make)
        opened, place = await open_in_place(
            self.home,
            directory,
            quota_bytes=self.options.quota_bytes,
            quota_files=self.options.quota_files,
        )
        async with open_mounted(
            self.home, opened, place, self.git, limits=self.snapshot_limits, clean=clean
        ) as workspace:
            yield workspace

    async def records(self) -> list[Record]:
        return await asyncio.to_thread(self.home.records)

    async def find(self, id: str) -> Record | None:
        """A workspace that may have been made already."""
        try:
            return await asyncio.to_thread(Record.read, self.home.workspace(id))
        except NotFound:
            return None

    async def remove(self, id: str) -> None:
        """Remove a workspace with its snapshots."""
        if not self.home.workspace(id).exists():
            known = [record.id for record in await self.records()]
            raise NotFound(f"There is no workspace '{id}'. There are: {', '.join(known) or 'none'}.")
        await remove_workspace(self.home, id)


async def fork_workspace(workspace: Workspace, number: int, id: str | None = None) -> Record:
    """Make a new workspace as this one was in a snapshot."""
    record = workspace.record
    about = Path(record.source or "").name if record.mode_reason == IN_PLACE else record.id.rsplit("-", 1)[0]
    return await fork(workspace, number, id or new_workspace_id(about))


def session_workspace_id(session_id: str) -> str:
    """The id of the workspace of a session, which is the same after a crash."""
    return f"session-{session_id.removeprefix('ses_')}"


def session_of_workspace(id: str) -> str:
    """The session that a workspace was made for; empty when it was for none."""
    kind, _, rest = id.partition("-")
    return f"ses_{rest}" if kind == "session" and SESSION_PART.fullmatch(rest) else ""


def new_workspace_id(about: str) -> str:
    """An id that tells people what it is of."""
    words = re.sub(r"[^a-zA-Z0-9]+", "-", about).strip("-").lower()[:40] or "workspace"
    return f"{words}-{secrets.token_hex(3)}"
