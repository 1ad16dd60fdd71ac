"""Computes the size of a commit on disk before it is checked out.

A few hundred bytes of objects can describe ten billion files, because a tree can contain
another one many times. So every tree is read once and multiplied by its occurrences,
instead of walking every path.
"""

from pathlib import Path

from hutch.domain.byte_size_formatting import readable_size
from hutch.domain.errors import LimitReached
from hutch.forge.host_git import Git
from hutch.snapshots.git_object_reader import TREE, format_tree, object_name, parse_tree
from hutch.system.lazy_dataclass import dataclass

MAX_TREE_BYTES = 192 * 1024 * 1024  # of all distinct trees together
MAX_COUNT = 1 << 60  # larger numbers are capped
KIND = 0o170000
EXECUTABLE, PLAIN = 0o100755, 0o100644


@dataclass(frozen=True, slots=True)
class CommitSize:
    """Number of files and directories, and their bytes."""

    files: int
    bytes: int


class CommitTrees:
    """The distinct trees of a commit, and the sizes of its files."""

    def __init__(self, top: bytes, trees: dict[bytes, bytes], sizes: dict[bytes, int]) -> None:
        self.top = top
        self._trees = trees
        self._sizes = sizes

    def total_size(self) -> CommitSize:
        known: dict[bytes, CommitSize] = {}
        for name in self._from_below():
            files = total = 0
            for mode, _, entry in parse_tree(self._trees[name]):
                below = known[entry] if mode & KIND == TREE else CommitSize(0, self._sizes.get(entry, 0))
                files, total = files + 1 + below.files, total + below.bytes
            known[name] = CommitSize(min(files, MAX_COUNT), min(total, MAX_COUNT))
        return known[self.top]

    def as_written(self) -> bytes:
        """The id of the top tree as current git writes it: plain modes and no empty directories."""
        known: dict[bytes, bytes | None] = {}
        for name in self._from_below():
            entries = []
            for mode, text, entry in parse_tree(self._trees[name]):
                if mode & KIND != TREE:
                    entries.append((_plain_mode(mode), text, entry))
                elif (below := known[entry]) is not None:
                    entries.append((TREE, text, below))
            known[name] = object_name("tree", format_tree(entries)) if entries else None
        return known[self.top] or object_name("tree", b"")

    def _from_below(self) -> list[bytes]:
        """Every tree once, children first."""
        ordered: dict[bytes, None] = {}
        waiting = [(self.top, False)]
        while waiting:
            name, is_done = waiting.pop()
            if is_done:
                ordered.setdefault(name)
            elif name not in ordered:
                waiting.append((name, True))
                below = {entry for mode, _, entry in parse_tree(self._trees[name]) if mode & KIND == TREE}
                waiting += [(entry, False) for entry in below if entry not in ordered]
        return list(ordered)


async def read_trees(git: Git, git_dir: Path, commit: str) -> CommitTrees:
    """Read every tree of a commit, and the sizes of its files."""
    top = (await git.run("rev-parse", "--verify", f"{commit}^{{tree}}", git_dir=git_dir)).strip()
    words = ("rev-list", "--objects", "--no-object-names", "--no-walk", top.decode())
    listed = await git.run(*words, git_dir=git_dir)
    shape = "--batch-check=%(objecttype) %(objectsize) %(objectname)"
    listing = await git.run("cat-file", "--buffer", shape, git_dir=git_dir, stdin=listed)
    sizes: dict[bytes, int] = {}
    names: list[bytes] = []
    total = 0
    for line in listing.splitlines():
        kind, length, name = line.split(b" ")
        if kind == b"tree":
            names.append(name)
            total += int(length)
        else:
            sizes[bytes.fromhex(name.decode())] = int(length)
    if total > MAX_TREE_BYTES:
        raise LimitReached(
            f"The directories of {commit[:12]} alone take {readable_size(total)}, more than Hutch supports.",
            limit="workspace.quota_files",
        )
    ids = b"".join(name + b"\n" for name in names)
    return CommitTrees(
        bytes.fromhex(top.decode()),
        _bodies(await git.run("cat-file", "--buffer", "--batch", git_dir=git_dir, stdin=ids)),
        sizes,
    )


def check_size(source: str, commit: str, found: CommitSize, max_size: CommitSize) -> None:
    """Refuse a commit that exceeds the quota of a workspace."""
    about = f"{source} at {commit[:12]} has"
    if found.files > max_size.files:
        raise LimitReached(
            f"{about} {_number(found.files)} files, and a workspace may have {max_size.files}. "
            "Raise workspace.quota_files if that is intended.",
            limit="workspace.quota_files",
        )
    if found.bytes > max_size.bytes:
        raise LimitReached(
            f"{about} {readable_size(found.bytes)} of files, and a workspace may have "
            f"{readable_size(max_size.bytes)}. Raise workspace.quota_bytes if that is intended.",
            limit="workspace.quota_bytes",
        )


def _number(count: int) -> str:
    return str(count) if count < MAX_COUNT else f"more than {MAX_COUNT}"


def _bodies(printed: bytes) -> dict[bytes, bytes]:
    """Parse the output of `cat-file --batch`: a line with name, kind and length, then the object."""
    found, at = {}, 0
    while at < len(printed):
        end = printed.index(b"\n", at)
        name, _, length = printed[at:end].split(b" ")
        found[bytes.fromhex(name.decode())] = printed[end + 1 : end + 1 + int(length)]
        at = end + 1 + int(length) + 1
    return found


def _plain_mode(mode: int) -> int:
    """A mode as git reads it: for files, only the executable bit counts."""
    if mode & KIND != PLAIN & KIND:
        return mode & KIND
    return EXECUTABLE if mode & 0o100 else PLAIN
