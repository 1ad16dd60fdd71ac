"""A new workspace from a snapshot of another, on the same base.

Snapshots are shared, not copied. The content is made from the base by touching only
what differs, so a fork of a large repository costs what was changed in it.
"""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from hutch.domain.errors import Conflict
from hutch.snapshots.restore import fill_from_snapshot
from hutch.system.uninterrupted import run_in_thread
from hutch.workspace.files.tree_copy import copy_base
from hutch.workspace.preparation.base import tree_path
from hutch.workspace.preparation.filler import make_layers
from hutch.workspace.preparation.record import Record
from hutch.workspace.preparation.removal import LOCK, discard, temporary_name
from hutch.workspace.preparation.workspace_mount import mount_directory
from hutch.workspace.workspace import Workspace, snapshot_content


async def fork(workspace: Workspace, number: int, id: str) -> Record:
    """Make the workspace `id` as `workspace` was in a snapshot."""
    home, final = workspace.home, workspace.home.workspace(id)
    if final.exists():
        raise Conflict(f"There is a workspace '{id}' already. Remove it, or take another id.")
    record = replace(
        workspace.record,
        id=id,
        mode_reason="forked",
        created=datetime.now(UTC).isoformat(),
        notes=(f"Forked from snapshot {number} of '{workspace.record.id}'.",),
    )
    place = home.workspaces / temporary_name(id)
    place.mkdir(mode=0o700)
    try:
        if record.mode == "overlay":
            await run_in_thread(make_layers, place)
        elif record.base is not None:
            await copy_base(tree_path(home, record.base), place / "tree")
        else:
            (place / "tree").mkdir(mode=0o755)
        await workspace.work(_fill, workspace, number, place, record)
        record.write(place)
        try:
            place.rename(final)
        except OSError:
            raise Conflict(f"There is a workspace '{id}' by now. Take another id.") from None
    except BaseException:
        await run_in_thread(discard, place)
        raise
    return record


def _fill(workspace: Workspace, number: int, place: Path, record: Record) -> None:
    snapshots = workspace.snapshots.fork(number, place)
    opened = mount_directory(workspace.home, place, record)
    try:
        fill_from_snapshot(snapshots, snapshot_content(opened), snapshots.list()[-1].id)
    finally:
        opened.close()
    (place / LOCK).unlink(missing_ok=True)
