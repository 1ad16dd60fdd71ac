"""Creates a workspace from a local or remote repository, a directory, or a few files.

It is built under a temporary name and appears by a rename. A cancellation leaves nothing
behind, and leftovers of a killed process are removed later. Fetched and checked-out
commits are cached and shared: the second workspace at a commit needs neither the network
nor git.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from hutch.domain.errors import BadRequest, Conflict
from hutch.domain.user_given_starter_files import StarterFiles
from hutch.forge.bare_mirror import check_revision, fetch, find_revision
from hutch.forge.git_progress import OnProgress, Progress
from hutch.forge.host_git import Git
from hutch.forge.repo_url import RepoUrl, from_path
from hutch.system.file_lock import locked_async
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.lifecycle.commit_size import CommitSize
from hutch.workspace.lifecycle.initial_repository_settings import store_settings
from hutch.workspace.lifecycle.pinned_directory import PinnedDirectory, open_pinned, pin_path
from hutch.workspace.lifecycle.repository_and_head_detection import Layout, quick_head
from hutch.workspace.lifecycle.repository_reader_in_jail import open_jailed_repository
from hutch.workspace.lifecycle.shared_base_checkout import (
    Base,
    BaseRequest,
    base_key,
    find_base,
    lock_path,
    make_base,
)
from hutch.workspace.lifecycle.workspace_and_cache_removal import discard, temporary_name
from hutch.workspace.lifecycle.workspace_filling import (
    FillContext,
    Options,
    copy_directory,
    fill_from_base,
    write_files,
)
from hutch.workspace.lifecycle.workspace_record_and_directories import Home, Record

PinPath = Callable[[Path], PinnedDirectory]
Complete = Callable[[Record], Record]
DEFAULT = Options()


def same_record(record: Record) -> Record:
    return record


async def prepare(
    home: Home,
    id: str,
    source: RepoUrl | Path | StarterFiles,
    *,
    git: Git,
    revision: str | None = None,
    uncommitted: bool = False,
    options: Options = DEFAULT,
    on_progress: OnProgress | None = None,
    pin_path: PinPath = pin_path,
    complete: Complete = same_record,
) -> Record:
    """Create the workspace `id`. `revision` is a branch, tag or commit; by default, the current one.

    `uncommitted` adds the uncommitted changes of a repository on this machine. `pin_path` opens a directory
    on this machine and refuses one that may not be copied. `complete` gets the record before it is stored.
    """
    final = home.workspace(id)
    await asyncio.to_thread(home.make)
    if final.exists():
        raise Conflict(f"There is a workspace '{id}' already. Remove it, or choose another id.")
    if revision is not None:
        check_revision(revision)
    place = home.workspaces / temporary_name(id)
    place.mkdir(mode=0o700)
    filling = FillContext(home, place, options, on_progress or (lambda progress: None))
    try:
        # Bases stay locked until the record of the workspace refers to them.
        async with AsyncExitStack() as held:
            work = _Build(filling, git, revision, uncommitted, held, pin_path)
            filled = await asyncio.to_thread(store_settings, home, place, await work.fill(source))
            record = replace(complete(filled), id=id, created=datetime.now(UTC).isoformat())
            record.write(place)
            try:
                place.rename(final)
            except OSError:
                raise Conflict(f"There is a workspace '{id}' in the meantime. Choose another id.") from None
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

    async def fill(self, source: RepoUrl | Path | StarterFiles) -> Record:
        if isinstance(source, Mapping):
            self._refuse_revision("Starter files have")
            return await write_files(self.filling, source)
        if isinstance(source, RepoUrl) and source.path is None:
            if self.uncommitted:
                raise BadRequest(
                    f"{source} is remote: only a directory on this machine has uncommitted changes."
                )
            return await fill_from_base(self.filling, await self._remote_base(source))
        path = source.path if isinstance(source, RepoUrl) else source
        assert path is not None
        pinned = await self.held.enter_async_context(open_pinned(partial(self.pin_path, path)))
        if self.filling.home.data.resolve().is_relative_to(pinned.path):
            raise BadRequest(
                f"'{pinned.path}' contains Hutch's own data, which cannot be copied into itself."
            )
        if pinned.layout is not None:
            return await self._from_local(pinned, pinned.layout)
        self._refuse_revision(f"'{pinned.path}' is not a git repository: it has")
        return await copy_directory(self.filling, pinned.path, pinned.directory)

    async def _from_local(self, pinned: PinnedDirectory, layout: Layout) -> Record:
        repo = from_path(layout.root)
        if self.uncommitted and layout.bare:
            raise BadRequest(
                f"'{layout.root}' is a bare repository: it has no uncommitted files. Omit that option."
            )
        if self.uncommitted and self.revision is not None:
            raise BadRequest("Uncommitted changes belong to the checked-out commit. Omit the revision.")
        quick = await asyncio.to_thread(quick_head, layout, self.revision)
        if quick is not None and not self.uncommitted:
            base = await self._hold(base_key(repo.key, *quick), shared=True)
            if base is not None:
                return await fill_from_base(self.filling, base)
        self.filling.on_progress(Progress("Reading the repository", 0))
        scratch = self.filling.place / "scratch"
        scratch.mkdir()
        async with open_jailed_repository(layout, scratch) as local:
            head = await local.head(self.revision)
            changes = await local.changes() if self.uncommitted else []
            key = base_key(repo.key, head.commit, head.branch)
            base = await self._hold(key)
            if base is None:
                async with locked_async(self._mirror(repo).with_suffix(".lock")):
                    await local.pack(
                        self.git, self._mirror(repo), head.commit, on_progress=self.filling.on_progress
                    )
                    request = BaseRequest(
                        source=str(layout.root), commit=head.commit, branch=head.branch, origin=head.origin
                    )
                    base = await self._make(key, repo, request)
        scratch.rmdir()
        return await fill_from_base(self.filling, base, changed=pinned.directory, changes=changes)

    async def _remote_base(self, repo: RepoUrl) -> Base:
        self.filling.on_progress(Progress("Asking the repository", 0))
        found = await find_revision(self.git, repo, self.revision)
        key = base_key(repo.key, found.commit, found.branch)
        base = await self._hold(key, shared=True)
        if base is not None:
            return base
        mirror = self._mirror(repo)
        async with locked_async(mirror.with_suffix(".lock")):
            commit = await fetch(self.git, repo, mirror, found, on_progress=self.filling.on_progress)
            key = base_key(repo.key, commit, found.branch)
            base = await self._hold(key)
            if base is not None:
                return base
            request = BaseRequest(
                source=repo.address, commit=commit, branch=found.branch, origin=repo.address
            )
            return await self._make(key, repo, request)

    async def _hold(self, key: str, *, shared: bool = False) -> Base | None:
        """Lock a base until the workspace exists, so that it is not removed. Unless shared, also keeps others
        from creating it."""
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
        home, on_progress, options = self.filling.home, self.filling.on_progress, self.filling.options
        max_size = CommitSize(options.quota_files, options.quota_bytes)
        return await make_base(
            home, self.git, self._mirror(repo), key, request, max_size=max_size, on_progress=on_progress
        )

    def _mirror(self, repo: RepoUrl) -> Path:
        return self.filling.home.repositories / f"{repo.key}.git"

    def _refuse_revision(self, subject: str) -> None:
        if self.revision is not None or self.uncommitted:
            raise BadRequest(f"{subject} no branches, commits or uncommitted changes. Omit those options.")
