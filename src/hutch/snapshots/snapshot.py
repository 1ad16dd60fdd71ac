"""Snapshots of a workspace. Each is complete, and cheap enough to be taken often.

The cost of a snapshot depends on what has changed since the previous one. If nothing
has, the previous one is returned. All operations use one lock, and after a crash the
list is unchanged or contains the new snapshot.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from hutch.domain.errors import BadRequest, NotFound
from hutch.edit.file_operation_types import Announcement
from hutch.snapshots.changes_replaced_before_snapshot import LostChanges
from hutch.snapshots.confined_directory import Directory, to_hutch_error
from hutch.snapshots.disk_entry_reader import EntryReader, SnapshotLimits
from hutch.snapshots.disk_walk import TICK_NS, WHOLE_SECONDS_NS, Clock
from hutch.snapshots.git_object_reader import EMPTY_TREE
from hutch.snapshots.git_storage import CONFIG, DISPLAY_NAME, OnTaken, Snapshot, Storage, Taken, commit_text
from hutch.snapshots.pack_writer import PackWriter
from hutch.snapshots.prebuilt_base_file_index import BaseIndex
from hutch.snapshots.snapshot_section_choice import EmptyBase
from hutch.snapshots.snapshot_tree_layout import (
    Branch,
    Item,
    Leaf,
    OmittedEntry,
    read_items,
    write_snapshot_tree,
)
from hutch.snapshots.stat_cache import StatCache
from hutch.snapshots.workspace_scan import FindMapped, Scan, ScanResult
from hutch.system.atomic_file import sync_directory
from hutch.system.lazy_dataclass import dataclass
from hutch.system.terminal_safe_text import printable

DEFAULT_LIMITS = SnapshotLimits()
NOTHING_ANNOUNCED = Announcement()

Clean = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Content:
    """The source of snapshots: a directory or, for an overlay, its merged tree and its upper directory."""

    tree: Directory
    upper: Directory | None = None
    attributes: str = (
        "user.overlay."  # prefix of the overlay's attributes: `trusted.overlay.` if root mounts it
    )


class Snapshots:
    """The snapshots of one workspace. `path` is its directory on the host."""

    def __init__(
        self,
        path: Path,
        *,
        base: BaseIndex | None = None,
        limits: SnapshotLimits = DEFAULT_LIMITS,
        skipped: Sequence[str] = (),
    ) -> None:
        self.base = base
        self.skipped = tuple(skipped)  # paths of installed dependencies, which are in no snapshot
        self.limits = limits
        self.storage = Storage(
            path, borrowed=base.objects if base else None, elsewhere=base.elsewhere if base else None
        )
        self.storage.remove_leftovers()
        self.cache = StatCache(self.storage.own / "cache")
        self._texts: dict[bytes, bytes] = {}
        self.scanned_entries = 0  # of the last scan
        self.on_taken: OnTaken | None = None  # called for each snapshot, before the next scan can begin
        self.find_mapped: FindMapped | None = None  # set while processes may map files
        self.clean: Clean = str  # redacts secrets in reasons, which may contain paths or a caller's text

    def take(
        self,
        content: Content,
        reason: str,
        *,
        named: bool = False,
        announced: Announcement = NOTHING_ANNOUNCED,
    ) -> Snapshot:
        """Take a snapshot of the current content; if nothing has changed, return the newest one.

        A `named` one is also taken if the newest has another reason. If another process has already replaced
        an announced change, a snapshot with the announced changes precedes it.
        """
        with self.storage.locked():
            return self.take_locked(content, reason, named=named, announced=announced)

    def take_versions(
        self, versions: Announcement, changed_ns: Mapping[str, int], reason: str
    ) -> Snapshot | None:
        """Take a snapshot of the newest one and these versions of files, which are about to be replaced.

        `changed_ns` has the times of the files. None: there is no snapshot yet.
        """
        with self.storage.locked():
            newest = self.storage.newest()
            if newest is None:
                return None
            top = self._counted_top(newest)
            writer = PackWriter(self.storage.git_dir / "objects")
            lost = LostChanges(self.storage.objects, top, self.base or EmptyBase(), versions)
            try:
                reader = EntryReader(writer, self.limits, ignored_bytes=top.ignored_size, attributes=None)
                snapshot = self._commit(lost.add_all(reader, writer), reason, writer)
            except OSError as error:
                raise to_hutch_error(error, DISPLAY_NAME) from error
            finally:
                writer.abandon()
            if self.on_taken is not None:
                self.on_taken(Taken(snapshot, 0, changed_ns))
        return snapshot

    def adopt(self, tree: Directory, reason: str) -> Snapshot:
        """Take the first snapshot of an exact copy of the base, before any other process can write to it.

        Files with the size and time of the base's files are not read. Returns only when the next change
        of any file will show in its time stamp.
        """
        with self.storage.locked():
            return self.take_locked(Content(tree), reason, adopting=True)

    def list(self) -> Sequence[Snapshot]:
        """All snapshots, oldest first."""
        return self.storage.list()

    def get(self, number: int) -> Snapshot:
        return self.storage.get(number)

    def delete(self, numbers: Iterable[int]) -> None:
        """Delete snapshots. Others are not affected; a garbage collection frees the space."""
        with self.storage.locked():
            self.storage.delete(numbers)

    def delete_old(self, *, keep: int) -> Sequence[int]:
        """Delete all but the newest `keep`; returns the deleted numbers."""
        with self.storage.locked():
            numbers = self.storage.numbers()
            old = numbers[: max(0, len(numbers) - keep)]
            self.storage.delete(old)
        return old

    def item(self, number: int, path: str) -> Item:
        """The item at a path in a snapshot."""
        item: Item = self.storage.top(self.get(number))
        for name in path.split("/") if path else ():
            only = {os.fsencode(name)}
            items = read_items(self.storage.objects, item, only=only) if isinstance(item, Branch) else {}
            found = items.get(name)
            if found is None:
                raise NotFound(f"'{_display(path)}' is not in snapshot {number}.")
            item = found
        return item

    def entries(self, number: int, path: str = "") -> dict[str, Item]:
        """The entries of a directory in a snapshot, by name."""
        item = self.item(number, path)
        if not isinstance(item, Branch):
            raise BadRequest(f"'{_display(path)}' is not a directory in snapshot {number}.")
        return read_items(self.storage.objects, item)

    def read(self, number: int, path: str) -> Iterator[bytes]:
        """The content of a file in chunks, or the target of a link."""
        item = self.item(number, path)
        if isinstance(item, OmittedEntry):
            raise NotFound(
                f"'{_display(path)}' existed in snapshot {number} but was not stored: {item.reason}."
            )
        if not isinstance(item, Leaf):
            raise BadRequest(
                f"'{_display(path)}' is a directory in snapshot {number}; give the path of a file in it."
            )
        return self.storage.objects.chunks(item.name)

    def fork(self, number: int, path: Path) -> "Snapshots":
        """Snapshots for a new workspace on the same base, starting with this one. Files are shared."""
        try:
            return self._fork(number, path)
        except OSError as error:
            raise to_hutch_error(error, DISPLAY_NAME) from error

    def _fork(self, number: int, place: Path) -> "Snapshots":
        with self.storage.locked():
            origin = self.get(number)
            other = Snapshots(place, base=self.base, limits=self.limits, skipped=self.skipped)
            packs = other.storage.git_dir / "objects/pack"
            for path in sorted((self.storage.git_dir / "objects/pack").iterdir(), reverse=True):
                if path.name.startswith("pack-"):  # .pack and .keep come before .idx
                    _share(path, packs / path.name)
            sync_directory(packs)
            with other.storage.locked():
                other._commit(
                    self.storage.top(origin)._replace(
                        file_count=origin.files, size=origin.bytes, omitted=origin.omitted
                    ),
                    f"forked from snapshot {number}",
                    PackWriter(other.storage.git_dir / "objects"),
                )
        return other

    def take_locked(
        self,
        content: Content,
        reason: str,
        *,
        adopting: bool = False,
        stored: frozenset[bytes] = frozenset(),
        named: bool = False,
        announced: Announcement = NOTHING_ANNOUNCED,
    ) -> Snapshot:
        """Like `take`, for callers that hold the lock. Objects in `stored` need not be written."""
        storage = self.storage
        self.cache.refresh(storage.is_anchored)
        started_ns = time.time_ns()
        writer = PackWriter(storage.git_dir / "objects", stored=stored)
        try:
            found = self._scan(content, writer, adopting=adopting).run()
            self.scanned_entries = found.entries
            lost = self._commit_lost(found, announced, reason, writer)
            snapshot = self._commit(found.branch, reason, writer, named=named)
        except OSError as error:
            raise to_hutch_error(error, DISPLAY_NAME) from error
        finally:
            writer.abandon()
        anchor = (snapshot.id, snapshot.commit)
        if found.changed or self.cache.anchor != anchor:
            self.cache.update(found.changed, anchor)
        if self.on_taken is not None:
            if lost is not None:
                self.on_taken(Taken(lost, 0, {}))
            self.on_taken(Taken(snapshot, started_ns, found.changed_ns))
        if adopting:
            _wait_for_later_timestamp(found.newest_ns)
        return snapshot

    def current_tree(self, content: Content, git_dir: Path) -> str:
        """The tree that git would commit now, without taking a snapshot.

        New objects go into a new git directory at `git_dir`, with the storage as its alternate.
        """
        objects = git_dir / "objects"
        with self.storage.locked():
            self.cache.refresh(self.storage.is_anchored)
            make_borrowing_directory(git_dir, self.storage)
            writer = PackWriter(objects)
            try:
                found = self._scan(content, writer, adopting=False).run()
                self.cache.release(found.changed)
                writer.finish()
            except OSError as error:
                raise to_hutch_error(error, DISPLAY_NAME) from error
            finally:
                writer.abandon()
        return (found.branch.files or EMPTY_TREE).hex()

    def _scan(self, content: Content, writer: PackWriter, *, adopting: bool) -> Scan:
        return Scan(
            content.upper or content.tree,
            writer,
            self.storage.objects,
            listings=self.cache.listings,
            base=self.base or EmptyBase(),
            limits=self.limits,
            texts=self._texts,
            attributes=content.attributes if content.upper else None,
            adopting=adopting,
            find_mapped=self.find_mapped,
            skipped=_by_directory(self.skipped),
        )

    def _commit_lost(
        self, found: ScanResult, announced: Announcement, reason: str, writer: PackWriter
    ) -> Snapshot | None:
        """A snapshot with all announced changes, if the scan does not show some of them."""
        newest = self.storage.newest() if announced.changes else None
        if newest is None:
            return None
        listings = self.cache.listings

        def find_scanned(path: str) -> Item | None:
            above, _, name = path.rpartition("/")
            listing = found.changed[above] if above in found.changed else listings.get(above)
            return listing.items.get(name) if listing else None

        top = self._counted_top(newest)
        lost = LostChanges(self.storage.objects, top, self.base or EmptyBase(), announced)
        if not lost.are_any(find_scanned):
            return None
        ignored = found.branch.ignored_size
        reader = EntryReader(writer, self.limits, ignored_bytes=ignored, attributes=None)
        return self._commit(lost.add_all(reader, writer), reason, writer)

    def _counted_top(self, snapshot: Snapshot) -> Branch:
        return self.storage.top(snapshot)._replace(
            file_count=snapshot.files, size=snapshot.bytes, omitted=snapshot.omitted
        )

    def _commit(self, branch: Branch, reason: str, writer: PackWriter, *, named: bool = False) -> Snapshot:
        storage = self.storage
        newest = storage.newest()
        tree = write_snapshot_tree(writer, branch)
        reason = printable(self.clean(reason))
        if newest and storage.whole_tree(newest) == tree and (not named or newest.reason == reason):
            return newest
        text = commit_text(
            tree, branch, reason=reason, files_tree=branch.files or EMPTY_TREE, taken_at=datetime.now(UTC)
        )
        return storage.add(writer.add("commit", text).hex(), writer)


def make_borrowing_directory(git_dir: Path, storage: Storage) -> None:
    """Make a git directory that uses the objects of the storage."""
    objects = git_dir / "objects"
    for directory in (objects / "pack", objects / "info", git_dir / "refs"):
        directory.mkdir(mode=0o700, parents=True)
    (objects / "info/alternates").write_text(f"{storage.git_dir.resolve() / 'objects'}\n")
    (git_dir / "config").write_text(CONFIG)
    (git_dir / "HEAD").write_text("ref: refs/heads/none\n")


def _share(path: Path, target: Path) -> None:
    try:
        target.hardlink_to(path)
    except OSError:
        shutil.copyfile(path, target)


def _wait_for_later_timestamp(changed_ns: int) -> None:
    """Wait until any further change gets a later time stamp."""
    slack_ns = TICK_NS if changed_ns % 1_000_000_000 else WHOLE_SECONDS_NS
    while Clock.now().began_ns <= changed_ns + slack_ns:
        time.sleep(TICK_NS / 1e9)


def _display(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _by_directory(paths: Sequence[str]) -> dict[str, set[str]]:
    """The names of paths by the directories that they are in."""
    names: dict[str, set[str]] = {}
    for path in paths:
        above, _, name = path.rpartition("/")
        names.setdefault(above, set()).add(name)
    return names
