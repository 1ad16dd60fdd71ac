"""Creates a workspace from a snapshot of another one, on the same base.

Snapshots are shared, not copied. Only files that differ from the base are written, so the
cost of a fork depends on the size of the changes.
"""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from hutch.domain.errors import Conflict
from hutch.snapshots.restore import fill_from_snapshot
from hutch.system.uncancellable_work import run_in_thread
from hutch.workspace.files.tree_copy import copy_base
from hutch.workspace.lifecycle.shared_base_checkout import tree_path
from hutch.workspace.lifecycle.workspace_and_cache_removal import LOCK, discard, temporary_name
from hutch.workspace.lifecycle.workspace_filling import make_layers
from hutch.workspace.lifecycle.workspace_mount import mount_directory
from hutch.workspace.lifecycle.workspace_record_and_directories import Record
from hutch.workspace.workspace import Workspace, snapshot_content


async def fork(workspace: Workspace, number: int, id: str) -> Record:
    """Create the workspace `id` with the content of a snapshot of `workspace`."""
    home, final = workspace.home, workspace.home.workspace(id)
    if final.exists():
        raise Conflict(f"There is a workspace '{id}' already. Remove it, or choose another id.")
    record = replace(
        workspace.record,
        id=id,
        mode_reason="forked",
        created=datetime.now(UTC).isoformat(),
        notes=(f"Forked from snapshot {number} of '{workspace.record.id}'.",),
    )
    directory = home.workspaces / temporary_name(id)
    directory.mkdir(mode=0o700)
    try:
        if record.mode == "overlay":
            await run_in_thread(make_layers, directory)
        elif record.base is not None:
            await copy_base(tree_path(home, record.base), directory / "tree")
        else:
            (directory / "tree").mkdir(mode=0o755)
        await workspace.work(_fill, workspace, number, directory, record)
        record.write(directory)
        try:
            directory.rename(final)
        except OSError:
            raise Conflict(f"There is a workspace '{id}' in the meantime. Choose another id.") from None
    except BaseException:
        await run_in_thread(discard, directory)
        raise
    return record


def _fill(workspace: Workspace, number: int, directory: Path, record: Record) -> None:
    snapshots = workspace.snapshots.fork(number, directory)
    mount = mount_directory(workspace.home, directory, record)
    try:
        fill_from_snapshot(snapshots, snapshot_content(mount), snapshots.list()[-1].id)
    finally:
        mount.close()
    (directory / LOCK).unlink(missing_ok=True)
