"""A workspace made ready: from a repository here or elsewhere, a directory, or a few files.

It is put together under a name that says it is not done, and appears by a
rename. Who is cancelled leaves nothing behind; who is killed leaves what the next
sweep finds. What is fetched and checked out is kept and shared: the second
workspace at a commit needs neither the network nor git.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from hutch.domain.errors import BadRequest, Conflict
from hutch.forge.git import Git
from hutch.forge.mirror import check_revision, fetch, find_revision
from hutch.forge.progress import OnProgress, Progress
from hutch.forge.repo_url import RepoUrl, from_path
from hutch.system.file_lock import locked_async
from hutch.workspace.preparation.base import Base, BaseRequest, base_key, find_base, lock_path, make_base
from hutch.workspace.preparation.commit_size import CommitSize
from hutch.workspace.preparation.filler import (
    FillContext,
    Options,
    copy_directory,
    fill_from_base,
    write_files,
)
from hutch.workspace.preparation.jailed_repository import open_jailed_repository
from hutch.workspace.preparation.pinned_directory import PinnedDirectory, open_pinned, pin_path
from hutch.workspace.preparation.record import Home, Record
from hutch.workspace.preparation.removal import discard, temporary_name
from hutch.workspace.preparation.repository_layout import Layout, quick_head

Files = Mapping[str, bytes]
PinPath = Callable[[Path], PinnedDirectory]
DEFAULT = Options()


async def prepare(
    home: Home,
    id: str,
    source: RepoUrl | Path | Files,
    *,
    git: Git,
    revision: str | None = None,
    uncommitted: bool = False,
    options: Options = DEFAULT,
    on_progress: OnProgress | None = None,
    pin_path: PinPath = pin_path,
) -> Record:
    """Make the workspace `id`. `revision` is a branch, tag or commit; without, a repository's own choice.

    `uncommitted` brings what a repository on this machine has changed and not committed. `pin_path` opens a
    directory of this machine, and refuses one that may not be copied.
    """
    final = home.workspace(id)
    await asyncio.to_thread(home.make)
    if final.exists():
        raise Conflict(f"There is a workspace '{id}' already. Remove it, or take another id.")
    if revision is not None:
        check_revision(revision)
    place = home.workspaces / temporary_name(id)
    place.mkdir(mode=0o700)
    filling = FillContext(home, place, options, on_progress or (lambda progress: None))
    try:
        # Bases are held until the record shows who stands on them.
        async with AsyncExitStack() as held:
            work = _Build(filling, git, revision, uncommitted, held, pin_path)
            record = replace(await work.fill(source), id=id, created=datetime.now(UTC).isoformat())
            record.write(place)
            try:
                place.rename(final)
            except OSError:
                raise Conflict(f"There is a workspace '{id}' by now. Take another id.") from None
    except BaseException:
        await asyncio.shield(asyncio.ensure_future(asyncio.to_thread(discard, place)))
        raise
    return record


@dataclass(frozen=True, slots=True)
class _Build:
    filling: FillContext
    git: Git
    revision: str | None
    uncommitted: bool
    held: AsyncExitStack
    pin_path: PinPath

    async def fill(self, source: RepoUrl | Path | Files) -> Record:
        if isinstance(source, Mapping):
            self._refuse_revision("Starter files have")
            return await write_files(self.filling, source)
        if isinstance(source, RepoUrl) and source.path is None:
            if self.uncommitted:
                raise BadRequest(f"{source} is elsewhere: only a directory here has uncommitted changes.")
            return await fill_from_base(self.filling, await self._remote_base(source))
        path = source.path if isinstance(source, RepoUrl) else source
        assert path is not None
        pinned = await self.held.enter_async_context(open_pinned(partial(self.pin_path, path)))
        if self.filling.home.data.resolve().is_relative_to(pinned.path):
            raise BadRequest(f"'{pinned.path}' holds Hutch's own data, which cannot be copied into itself.")
        if pinned.layout is not None:
            return await self._from_local(pinned, pinned.layout)
        self._refuse_revision(f"'{pinned.path}' is not a git repository: it has")
        return await copy_directory(self.filling, pinned.path, pinned.directory)

    async def _from_local(self, pinned: PinnedDirectory, layout: Layout) -> Record:
        repo = from_path(layout.root)
        if self.uncommitted and layout.bare:
            raise BadRequest(
                f"'{layout.root}' is a bare repository: it has no files that could be uncommitted. "
                "Leave that option out."
            )
        if self.uncommitted and self.revision is not None:
            raise BadRequest("Uncommitted changes go with what is checked out. Give no revision with them.")
        quick = await asyncio.to_thread(quick_head, layout, self.revision)
        if quick is not None and not self.uncommitted:
            base = await self._hold(base_key(repo.key, *quick), shared=True)
            if base is not None:
                return await fill_from_base(self.filling, base)
        self.filling.tell(Progress("Reading the repository", 0))
        scratch = self.filling.place / "scratch"
        scratch.mkdir()
        async with open_jailed_repository(layout, scratch) as local:
            head = await local.head(self.revision)
            changes = await local.changes() if self.uncommitted else []
            key = base_key(repo.key, head.commit, head.branch)
            base = await self._hold(key)
            if base is None:
                async with locked_async(self._mirror(repo).with_suffix(".lock")):
                    await local.pack(self.git, self._mirror(repo), head.commit, on_progress=self.filling.tell)
                    request = BaseRequest(
                        source=str(layout.root), commit=head.commit, branch=head.branch, origin=head.origin
                    )
                    base = await self._make(key, repo, request)
        scratch.rmdir()
        return await fill_from_base(self.filling, base, changed=pinned.directory, changes=changes)

    async def _remote_base(self, repo: RepoUrl) -> Base:
        self.filling.tell(Progress("Asking the repository", 0))
        found = await find_revision(self.git, repo, self.revision)
        key = base_key(repo.key, found.commit, found.branch)
        base = await self._hold(key, shared=True)
        if base is not None:
            return base
        mirror = self._mirror(repo)
        async with locked_async(mirror.with_suffix(".lock")):
            commit = await fetch(self.git, repo, mirror, found, on_progress=self.filling.tell)
            key = base_key(repo.key, commit, found.branch)
            base = await self._hold(key)
            if base is not None:
                return base
            request = BaseRequest(
                source=repo.address, commit=commit, branch=found.branch, origin=repo.address
            )
            return await self._make(key, repo, request)

    async def _hold(self, key: str, *, shared: bool = False) -> Base | None:
        """Keep others from removing a base until the workspace is there, or, not shared, from making one."""
        lock = locked_async(lock_path(self.filling.home, key), shared=shared)
        if not shared:
            await self.held.enter_async_context(lock)
            return await asyncio.to_thread(find_base, self.filling.home, key)
        async with AsyncExitStack() as maybe:
            await maybe.enter_async_context(lock)
            base = await asyncio.to_thread(find_base, self.filling.home, key)
            if base is not None:
                await self.held.enter_async_context(maybe.pop_all())
            return base

    async def _make(self, key: str, repo: RepoUrl, request: BaseRequest) -> Base:
        home, tell, options = self.filling.home, self.filling.tell, self.filling.options
        most = CommitSize(options.quota_files, options.quota_bytes)
        return await make_base(home, self.git, self._mirror(repo), key, request, most=most, on_progress=tell)

    def _mirror(self, repo: RepoUrl) -> Path:
        return self.filling.home.repositories / f"{repo.key}.git"

    def _refuse_revision(self, who: str) -> None:
        if self.revision is not None or self.uncommitted:
            raise BadRequest(f"{who} no branches, commits or uncommitted changes. Leave those options out.")
