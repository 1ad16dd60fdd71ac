"""Records every change of a session's files, with its author.

Each new snapshot is compared with the last one that was recorded. So every change is recorded exactly
once and in order, whatever caused the snapshot. Changes by tools and requests are announced, and matched
by path and content. For all others the author follows from the time stamp that the kernel gave the file
(see `author_work_periods.py`): a time before the last scan is no evidence, because a file keeps it when a
directory above it is renamed. Then, and for deleted files, everyone counts who was at work since the last
scan. A program that only waited was not at work.
"""

import asyncio
import hashlib
import time
from collections import deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import structlog

from hutch.agent.session_recorder import Recorder
from hutch.domain.current_actor_and_author import Actor, current_actor
from hutch.domain.errors import EventsMissing, HutchError, NotFound
from hutch.domain.events import AnyEvent, Event, FileChanged, FilesChanged, SessionParked, SnapshotTaken
from hutch.domain.ids import SessionId
from hutch.domain.run_events import ChangeCause
from hutch.edit.file_operation_types import FileChange
from hutch.sessions.announced_file_changes import AnnouncedChanges
from hutch.sessions.author_work_periods import Activity
from hutch.sessions.snapshot_change_events import (
    Attribution,
    ChangeBatch,
    Changed,
    ListingBudget,
    file_changed,
)
from hutch.snapshots.comparison import Difference, differences
from hutch.snapshots.git_storage import Snapshot, Taken
from hutch.snapshots.snapshot_tree_layout import Branch, Item, Leaf
from hutch.store.event_log_interface import EventLog
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.workspace import Workspace

MAX_CACHED_HASHES = 4096
PAGE = 500  # entries of a log
logger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Restore:
    actor: Actor
    number: int
    path: str


class ChangeRecorder:
    """Turns the changes of one workspace into events. It observes the workspace while it is open."""

    def __init__(self, workspace: Workspace, recorder: Recorder, activity: Activity) -> None:
        self._workspace = workspace
        self._recorder = recorder
        self._activity = activity
        self._loop = asyncio.get_running_loop()
        self._recorded = 0  # the newest snapshot whose changes are recorded; 0: not started
        self._scanned_ns = 0  # the start of the last scan
        self._announced: list[tuple[FileChange, Actor]] = []
        self._restore: _Restore | None = None
        self._events: deque[Event] = deque()
        self._listing_budget = ListingBudget()
        self._hashes: dict[bytes, str] = {}
        workspace.observer = self
        workspace.snapshots.on_taken = self._taken

    @property
    def recorded(self) -> int:
        """The newest snapshot whose changes are recorded; 0 before the start."""
        return self._recorded

    async def start(self, recorded: int, *, is_new: bool) -> None:
        """Record changes from now on, after those since the snapshot `recorded`, the newest in the log."""
        if is_new:  # it is as it was prepared
            newest = await self._workspace.work(self._workspace.snapshots.storage.newest)
            if newest is None:
                newest = await self._workspace.snapshot("at the start")
            elif self._workspace.record.layer_roots:  # opening it has hidden these paths from git
                newest = await self._workspace.snapshot("with its dependencies")
            self._scanned_ns, self._recorded = time.time_ns(), newest.id
            return
        self._scanned_ns = 0
        self._recorded = await self._workspace.work(self._existing, recorded)
        await self._workspace.snapshot("when the session was opened")

    def take_events(self) -> list[Event]:
        """Take the events of all changes so far, for the caller to write."""
        taken = []
        while self._events:
            taken.append(self._events.popleft())
        self._activity.forget_before(self._scanned_ns)
        return taken

    def close(self) -> None:
        self._workspace.observer = None
        self._workspace.snapshots.on_taken = None

    # --- in threads, one at a time ---

    def announce(self, changes: Sequence[FileChange]) -> None:
        actor = current_actor()
        self._announced += [(change, actor) for change in changes]

    def announce_restore(self, number: int, path: str) -> None:
        actor = current_actor()
        cause: ChangeCause = "undo" if actor.cause == "undo" else "restore"
        self._restore = _Restore(Actor(actor.by, cause, str(number)), number, path)

    def settle(self) -> None:
        self._restore = None
        if self._announced and self._recorded:
            self._add(self._exact_events(0, frozenset()))
        self._announced.clear()

    def _taken(self, taken: Taken) -> None:
        if not self._recorded:
            return  # not started: the start compares with what the log has
        self._activity.read_clocks()
        try:
            if taken.snapshot.id != self._recorded or self._announced:
                self._add(self._changes(taken))
        except (HutchError, OSError) as error:  # the next snapshot is compared with the same one again
            logger.warning(
                "session.changes_not_recorded", session_id=self._recorder.session_id, error=str(error)
            )
            return
        self._recorded = taken.snapshot.id
        self._scanned_ns = taken.started_ns or self._scanned_ns

    def _add(self, events: Sequence[Event]) -> None:
        if events:
            self._events.extend(events)
            self._loop.call_soon_threadsafe(self._recorder.write_soon)

    def _existing(self, recorded: int) -> int:
        """A snapshot, or the one that followed if it was removed."""
        numbers = self._workspace.snapshots.storage.numbers()
        return next((number for number in numbers if number >= recorded), numbers[-1])

    def _changes(self, taken: Taken) -> list[Event]:
        snapshots = self._workspace.snapshots
        objects, storage = snapshots.storage.objects, snapshots.storage
        old = snapshots.get(self._existing(self._recorded))
        batch = ChangeBatch(old.id, taken.snapshot.id, self._listing_budget)
        exact = AnnouncedChanges(self._announced)
        unrestored = self._unrestored(taken.snapshot) if self._restore else frozenset()
        matched: set[str] = set()
        for each in differences(objects, storage.top(old), storage.top(taken.snapshot)):
            changed = _changed(each)
            if changed is None:
                continue
            if exact.has(changed.path):
                if exact.is_match(changed.path, self._hash(changed.new)):
                    matched.add(changed.path)
                    continue
                actor = None  # a process has changed it since
            elif self._restore and _is_below(changed.path, self._restore.path):
                actor = None if changed.path in unrestored else self._restore.actor
            else:
                actor = exact.actor_above(changed.path)
            batch.add(changed, Attribution(actor) if actor else self._attribute(changed, taken))
        events = self._exact_events(taken.snapshot.id, matched, old.id)
        self._announced.clear()
        return [*events, *batch.events(self._hash, self._recorder.clean_path)]

    def _unrestored(self, taken: Snapshot) -> frozenset[str]:
        """The paths that a restore did not restore, or that were changed since."""
        assert self._restore is not None
        snapshots, path = self._workspace.snapshots, self._restore.path

        def item(number: int) -> Item | None:
            try:
                return snapshots.item(number, path)
            except NotFound:
                return None

        wanted, found = item(self._restore.number), item(taken.id)
        return frozenset(each.path for each in differences(snapshots.storage.objects, wanted, found, path))

    def _attribute(self, changed: Changed, taken: Taken) -> Attribution:
        changed_ns = taken.changed_ns.get(changed.path, 0) if changed.new is not None else 0
        if changed_ns and changed_ns >= self._scanned_ns:
            return Attribution.to(self._activity.at(changed_ns))
        return Attribution.to(self._activity.between(self._scanned_ns, time.time_ns()))

    def _exact_events(self, number: int, matched: AbstractSet[str], old: int = 0) -> list[Event]:
        """The events of announced changes. Only those that the snapshot has refer to it."""
        return [
            file_changed(
                change,
                Attribution(actor),
                self._recorder.clean_path,
                previous_snapshot=old or self._recorded,
                snapshot=number if change.path in matched or change.before == change.after else 0,
            )
            for change, actor in self._announced
        ]

    def _hash(self, item: Item | None) -> str | None:
        """The SHA-256 of a file, or of the target of a link."""
        if not isinstance(item, Leaf):
            return None
        known = self._hashes.get(item.name)
        if known is None:
            digest = hashlib.sha256()
            for chunk in self._workspace.snapshots.storage.objects.chunks(item.name):
                digest.update(chunk)
            if len(self._hashes) >= MAX_CACHED_HASHES:
                self._hashes.clear()
            known = self._hashes[item.name] = digest.hexdigest()
        return known


async def newest_snapshot(log: EventLog, session_id: SessionId) -> int:
    """The newest snapshot whose changes a log has; 0 if there is none."""
    last = (await log.head(session_id)).seq
    while last > 0:
        first = max(0, last - PAGE)
        try:
            page = await log.read(session_id, after=first, limit=last - first)
        except EventsMissing:  # the log says so where it is shown
            page = []
        found = max((_snapshot_in(entry.event) for entry in page), default=0)
        if found:
            return found
        last = first
    return 0


def _snapshot_in(event: AnyEvent) -> int:
    match event:
        case SnapshotTaken() | FileChanged() | FilesChanged() | SessionParked():
            return event.snapshot
    return 0


def _changed(each: Difference) -> Changed | None:
    """A difference of files; None if it is only one of directories."""
    old = None if isinstance(each.old, Branch) else each.old
    new = None if isinstance(each.new, Branch) else each.new
    return None if old is None and new is None else Changed(each.path, old, new)


def _is_below(path: str, directory: str) -> bool:
    return not directory or path == directory or path.startswith(f"{directory}/")
