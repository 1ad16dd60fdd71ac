"""Opens a mounted workspace, and closes it with everything that belongs to it."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from hutch.forge.host_git import Git
from hutch.snapshots.confined_directory import Directory, to_hutch_error
from hutch.snapshots.snapshot import Clean, Snapshots
from hutch.system.uncancellable_work import run_in_thread, wait_until_done
from hutch.workspace.files.file_reads_and_changes import Files
from hutch.workspace.lifecycle.dependency_git_exclude import exclude_from_git
from hutch.workspace.lifecycle.shared_base_checkout import open_index
from hutch.workspace.lifecycle.workspace_mount import WorkspaceMount
from hutch.workspace.lifecycle.workspace_record_and_directories import Home
from hutch.workspace.workspace import COMPARING, DEFAULT, SnapshotLimits, Workspace
from hutch.workspace.workspace_quota import Quota

COMPACT_TIMEOUT_S = 10.0  # how long closing waits for compaction


@asynccontextmanager
async def open_mounted(
    home: Home,
    mount: WorkspaceMount,
    directory: Path,
    git: Git,
    *,
    limits: SnapshotLimits = DEFAULT,
    clean: Clean = str,
) -> AsyncIterator[Workspace]:
    """A mounted workspace, until the block ends. `clean` removes secrets from what is stored."""
    workspace: Workspace | None = None
    compact_s = 0.0
    resources = ExitStack()
    resources.callback(mount.close)
    try:
        workspace = await run_in_thread(_assemble, home, mount, directory, git, limits, resources)
        workspace.snapshots.clean = clean
        yield workspace
        compact_s = COMPACT_TIMEOUT_S
    finally:
        ending = asyncio.ensure_future(_close(workspace, resources, compact_s))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await wait_until_done(ending)
            raise


async def _close(workspace: Workspace | None, resources: ExitStack, compact_s: float) -> None:
    if workspace is not None:
        await workspace.close(compact_s=compact_s)
    await asyncio.to_thread(resources.close)


def _assemble(
    home: Home, mount: WorkspaceMount, directory: Path, git: Git, limits: SnapshotLimits, resources: ExitStack
) -> Workspace:
    record = mount.record
    try:
        if record.layer_roots:
            exclude_from_git(mount.directory, record.layer_roots)
        path = directory / "journal"
        path.mkdir(mode=0o700, exist_ok=True)
        journal = resources.enter_context(Directory.at(path))
        shutil.rmtree(directory / COMPARING, ignore_errors=True)  # left by a killed process
        return Workspace(
            home=home,
            directory=directory,
            mount=mount,
            git=git,
            files=Files(mount.directory, journal, closed=record.layer_roots),
            snapshots=Snapshots(
                directory,
                base=open_index(home, record.base) if record.base else None,
                skipped=record.layer_roots,
            ),
            quota=Quota(mount),
            limits=limits,
        )
    except OSError as error:
        raise to_hutch_error(error, f"the workspace {record.id}") from error
