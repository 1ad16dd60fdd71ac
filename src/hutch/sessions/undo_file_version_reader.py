"""Versions of files as an undo compares them, and which files may hold a person's work."""

from collections.abc import Iterable
from dataclasses import field

from hutch.snapshots.path_version_restore import PathVersion, SnapshotVersions, StoredFile
from hutch.snapshots.snapshot import Snapshots
from hutch.snapshots.staged_git_index_entries import staged_entries
from hutch.system.lazy_dataclass import dataclass

# Parts of a git directory that people create. The rest is bookkeeping, which any `git status` may change.
GIT_WORK = frozenset({"HEAD", "packed-refs", "refs", "config", "hooks", "info", "index"})
GIT_APPEND_ONLY = frozenset({"objects", "logs"})  # only added to: an undo leaves them
CACHES = frozenset(
    {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
)  # their tools create them again
MAX_INDEX_BYTES = 16 << 20  # a larger index is compared by its bytes


@dataclass(frozen=True, slots=True)
class StagedFiles:
    """An index of git; equal to another one with the same entries."""

    entries: tuple[object, ...]
    file: StoredFile = field(compare=False)


Version = PathVersion | StagedFiles


def is_work(path: str, *, is_ignored: bool) -> bool:
    """True if a file may hold a person's work: not a cache, and not the bookkeeping of git."""
    parts = path.split("/")
    if ".git" in parts[:-1]:
        return not GIT_WORK.isdisjoint(parts[parts.index(".git") + 1 :]) and not is_append_only(path)
    return not (is_ignored and CACHES.intersection(parts[:-1]))


def is_append_only(path: str) -> bool:
    """True if a file is a part of git's store, which is only added to. An undo leaves it."""
    parts = path.split("/")
    inside = parts[parts.index(".git") + 1 :] if ".git" in parts else []
    return not GIT_APPEND_ONLY.isdisjoint(inside if inside[:1] == ["modules"] else inside[:1])


def current_versions(snapshots: Snapshots, number: int, paths: Iterable[str]) -> dict[str, Version]:
    """The versions of paths in a snapshot. Blocks."""
    found = SnapshotVersions(snapshots, number)
    versions = ((path, read_version(snapshots, found, path)) for path in paths)
    return {path: version for path, version in versions if version is not None}


def read_version(snapshots: Snapshots, found: SnapshotVersions, path: str) -> Version | None:
    """A version of a path; an index of git by its entries. Blocks."""
    version = found.version(path)
    if isinstance(version, StoredFile) and path.split("/")[-2:] == [".git", "index"]:
        data = b""
        for chunk in snapshots.storage.objects.chunks(version.blob):
            data += chunk
            if len(data) > MAX_INDEX_BYTES:
                return version
        entries = staged_entries(data)
        return StagedFiles(entries, version) if entries is not None else version
    return version
