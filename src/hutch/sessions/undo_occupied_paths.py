"""Finds files of an undo whose place is taken by something else."""

from collections.abc import Iterator

from hutch.sessions.undo_planning import UndoPlan
from hutch.sessions.undo_versions_and_work_check import Version
from hutch.snapshots.git_tree_layout import Branch, Leaf
from hutch.snapshots.path_version_reading_and_restoring import SnapshotVersions


def check_places(plan: UndoPlan[Version], now: SnapshotVersions) -> None:
    """Mark files as conflicts if something else is in their place: a file above, or files below. Blocks."""
    removed = {path for path, file in plan.files.items() if file.version is None and not file.conflict}
    for path, file in plan.files.items():
        if file.version is None or file.version == file.current:
            continue
        parts = path.split("/")
        above = {"/".join(parts[:end]) for end in range(1, len(parts))} - removed
        is_below_file = any(isinstance(now.item(each), Leaf) for each in above)
        if is_below_file or not set(_files_below(now, path)) <= removed:
            file.conflict, file.version = "blocked", file.current


def _files_below(now: SnapshotVersions, path: str) -> Iterator[str]:
    for name, item in now.entries(path).items():
        if isinstance(item, Branch):
            yield from _files_below(now, f"{path}/{name}")
        else:
            yield f"{path}/{name}"
