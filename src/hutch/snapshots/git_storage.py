"""The storage of a workspace's snapshots: a git directory that only the host sees.

A snapshot is a commit without parents, named by a number in `refs/snapshots`. Its
ref is written last, when all its objects are on disk, so after a crash the list is
unchanged or contains the new snapshot. One lock serialises all processes.
"""

import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from hutch.domain.errors import NotFound
from hutch.snapshots.confined_directory import to_hutch_error
from hutch.snapshots.git_object_reader import GitObjects
from hutch.snapshots.pack_writer import PackWriter, RefDraft
from hutch.snapshots.snapshot_tree_layout import Branch, read_snapshot_tree
from hutch.system.atomic_file import sync_directory
from hutch.system.file_lock import locked, try_lock
from hutch.system.lazy_dataclass import dataclass

DISPLAY_NAME = "the snapshots"  # in errors: paths of the host are not disclosed
CONFIG = """\
[core]
\trepositoryformatversion = 0
\tbare = true
\tlogAllRefUpdates = false
\tbigFileThreshold = 4m
[gc]
\tauto = 0
"""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A workspace's content at one moment."""

    id: int
    tree: str  # the tree that git would commit
    commit: str  # in the private git directory; includes ignored files
    taken_at: datetime
    reason: str
    files: int  # that git would commit
    bytes: int
    omitted: int  # omitted entries; the manifest has the reasons


@dataclass(frozen=True, slots=True)
class Taken:
    """A snapshot that was taken, for `Snapshots.on_taken`."""

    snapshot: Snapshot
    started_ns: int  # when the scan started; 0: there was none, it has announced changes
    changed_ns: Mapping[str, int]  # the last change of entries that were read; not of all if there are many


OnTaken = Callable[[Taken], None]


class Storage:
    """The files of one workspace's snapshots, in the host directory of the workspace."""

    def __init__(
        self, path: Path, *, borrowed: Path | None = None, elsewhere: Mapping[bytes, Path] | None = None
    ) -> None:
        self.git_dir = path / "snapshots.git"
        self.own = path / "snapshots"
        self._references = self.git_dir / "refs/snapshots"
        self._last = self.git_dir / "refs/last"  # a deleted snapshot that the stat cache still uses
        if not (self.git_dir / "HEAD").exists():
            self._make(borrowed)
        self.objects = GitObjects(self.git_dir / "objects", elsewhere=elsewhere)
        self._read: dict[str, Snapshot] = {}

    def _make(self, borrowed: Path | None) -> None:
        self.own.mkdir(mode=0o700, exist_ok=True)
        for name in ("objects/info", "objects/pack", "refs/snapshots", "refs/last"):
            (self.git_dir / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        if borrowed is not None:
            objects = self.git_dir / "objects"
            (objects / "info/alternates").write_text(f"{os.path.relpath(borrowed, objects)}\n")
        (self.git_dir / "config").write_text(CONFIG)
        (self.git_dir / "HEAD").write_text(
            "ref: refs/heads/none\n"
        )  # last: it marks a complete git directory

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the exclusive lock; waits for it."""
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(self.own / "lock"))
            except OSError as error:
                raise to_hutch_error(error, DISPLAY_NAME) from None
            yield

    def remove_leftovers(self) -> None:
        """Delete temporary files of a killed process, unless the storage is in use; also the newest ref if a
        power failure took its objects: `add`, which flushes both together, has not returned it."""
        try:
            held = try_lock(self.own / "lock")
        except OSError as error:
            raise to_hutch_error(error, DISPLAY_NAME) from None
        if held is None:
            return
        try:
            for path in (*(self.git_dir / "objects/pack").glob("tmp_*"), *self.own.glob("tmp_*")):
                path.unlink(missing_ok=True)
            newest = self._references / str(max(self.numbers(), default=0))
            if (commit := _commit(newest)) and bytes.fromhex(commit) not in self.objects:
                newest.unlink()
        finally:
            os.close(held)

    def numbers(self) -> Sequence[int]:
        return sorted(_numbers(self._references))

    def is_anchored(self, number: int, commit: str) -> bool:
        """True if the objects of a snapshot are stored, even if it was deleted."""
        return commit in (_commit(self._references / str(number)), _commit(self._last / str(number)))

    def commits(self) -> dict[int, str]:
        """The commit of every snapshot. A ref that a power failure has damaged is ignored."""
        found = {number: _commit(self._references / str(number)) for number in self.numbers()}
        return {number: commit for number, commit in found.items() if commit}

    def anchors(self) -> frozenset[str]:
        """All commits whose objects are needed."""
        last = (_commit(self._last / str(number)) for number in _numbers(self._last))
        return frozenset({*self.commits().values(), *(commit for commit in last if commit)})

    def newest(self) -> Snapshot | None:
        for number in reversed(self.numbers()):
            if commit := _commit(self._references / str(number)):
                return self._snapshot(number, commit)
        return None

    def list(self) -> Sequence[Snapshot]:
        return [self._snapshot(number, commit) for number, commit in self.commits().items()]

    def get(self, number: int) -> Snapshot:
        commit = _commit(self._references / str(number))
        if not commit:
            raise NotFound(f"There is no snapshot {number}. List them to see which there are.")
        return self._snapshot(number, commit)

    def top(self, snapshot: Snapshot) -> Branch:
        """The top directory of a snapshot."""
        return read_snapshot_tree(self.objects, self.whole_tree(snapshot))

    def whole_tree(self, snapshot: Snapshot) -> bytes:
        text = self.objects.read(bytes.fromhex(snapshot.commit), "commit")
        return bytes.fromhex(text.split(b"\n", 1)[0].removeprefix(b"tree ").decode())

    def add(self, commit: str, writer: PackWriter) -> Snapshot:
        """Write a commit with its objects to disk, and give it a number. The caller holds the lock."""
        number = max([0, *_numbers(self._references), *_numbers(self._last)]) + 1
        temporary = self.own / f"tmp_{secrets.token_hex(8)}"
        try:
            with temporary.open("wb") as file:
                file.write(f"{commit}\n".encode())
                file.flush()
                writer.finish(RefDraft(file, temporary, self._references / str(number)))
        finally:
            temporary.unlink(missing_ok=True)
        return self._snapshot(number, commit)

    def delete(self, numbers: Iterable[int]) -> None:
        """Delete snapshots; a garbage collection frees their space. The caller holds the lock."""
        there = self.commits()
        for number in sorted(set(numbers)):
            if number not in there:
                raise NotFound(f"There is no snapshot {number}. List them to see which there are.")
            if number == max(there):
                self._write(self._last / str(number), there[number])
            (self._references / str(number)).unlink()

    def release_anchors(self) -> None:
        """Delete refs that existed only for the stat cache and are older than the newest snapshot."""
        newest = max([0, *_numbers(self._references)])
        for number in _numbers(self._last):
            if number < newest:
                (self._last / str(number)).unlink()

    def _write(self, path: Path, commit: str) -> None:
        temporary = self.own / f"tmp_{secrets.token_hex(8)}"
        try:
            with temporary.open("w") as file:
                file.write(f"{commit}\n")
                file.flush()
                os.fdatasync(file.fileno())
            temporary.rename(path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_directory(path.parent)

    def _snapshot(self, number: int, commit: str) -> Snapshot:
        known = self._read.get(commit)
        if known is None or known.id != number:
            text = self.objects.read(bytes.fromhex(commit), "commit")
            about = json.loads(text.partition(b"\n\n")[2])
            known = self._read[commit] = Snapshot(
                id=number,
                tree=about["tree"],
                commit=commit,
                taken_at=datetime.fromtimestamp(about["taken_at"] / 1e6, UTC),
                reason=about["reason"],
                files=about["files"],
                bytes=about["bytes"],
                omitted=about["left_out"],
            )
        return known


def commit_text(tree: bytes, branch: Branch, *, reason: str, files_tree: bytes, taken_at: datetime) -> bytes:
    """The commit object of a snapshot."""
    micros = round(taken_at.timestamp() * 1e6)
    about = {
        "bytes": branch.size,
        "files": branch.file_count,
        "left_out": branch.omitted,
        "reason": reason,
        "taken_at": micros,
        "tree": files_tree.hex(),
    }
    identity = f"Hutch <hutch@localhost> {micros // 1_000_000} +0000"
    head = f"tree {tree.hex()}\nauthor {identity}\ncommitter {identity}\n"
    return f"{head}\n{json.dumps(about, sort_keys=True)}\n".encode()


def _numbers(directory: Path) -> list[int]:
    return [int(name) for name in os.listdir(directory) if name.isdecimal()]  # noqa: PTH208 (names are all we need)


def _commit(path: Path) -> str:
    try:
        text = path.read_text().strip()
    except FileNotFoundError:
        return ""
    return text if len(text) == 40 else ""
