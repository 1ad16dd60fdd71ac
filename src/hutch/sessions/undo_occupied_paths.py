"""Finds files of an undo whose place is taken by something else."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from hutch.sessions.undo_file_version_reader import Version
from hutch.sessions.undo_planning import UndoPlan
from hutch.snapshots.path_version_restore import SnapshotVersions
from hutch.snapshots.snapshot_tree_layout import Branch, Leaf


def check_places(plan: UndoPlan[Version], now: SnapshotVersions) -> None:
    """Mark files as conflicts if something else is in their place: a file above, or files below. Blocks."""
    removed = {path for path, file in plan.files.items() if file.version is None and not file.conflict}
    discarded = {path for path, file in plan.files.items() if file.resolved("discard") is None}
    blocked: dict[str, AbstractSet[str]] = {}  # files, and what is in their place
    for path, file in plan.files.items():
        if file.version is not None and file.version != file.current:
            blocked[path] = set(_in_place_of(path, now)) - removed
    for path, obstacles in blocked.items():
        file = plan.files[path]
        if obstacles:
            file.conflict, file.version = "blocked", file.current
            file.is_blocked_by_discarded = obstacles <= discarded


def _in_place_of(path: str, now: SnapshotVersions) -> Iterator[str]:
    parts = path.split("/")
    above = ("/".join(parts[:end]) for end in range(1, len(parts)))
    yield from (each for each in above if isinstance(now.item(each), Leaf))
    yield from _files_below(now, path)


def _files_below(now: SnapshotVersions, path: str) -> Iterator[str]:
    for name, item in now.entries(path).items():
        if isinstance(item, Branch):
            yield from _files_below(now, f"{path}/{name}")
        else:
            yield f"{path}/{name}"
