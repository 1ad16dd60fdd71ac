"""Finds in a log what an undo takes back: the changes of a run, of one step, or of an earlier undo.

Changes of a run are those of the agent from its start to the start of the next run. If somebody
else may have made a change, it is not clear. That includes changes by commands while a job of an
earlier run was still at work.
"""

from collections.abc import Iterable, Sequence
from typing import Self

from hutch.domain.current_actor_and_author import AGENT
from hutch.domain.errors import Conflict
from hutch.domain.events import (
    ChangesUndone,
    CommandEnded,
    CommandStarted,
    CommandYielded,
    Entry,
    FileChanged,
    FilesChanged,
    JobsDetached,
    JobsEnded,
    RunEnded,
    RunResumed,
    RunStarted,
    SessionParked,
    SessionRedone,
    SessionRewound,
    SnapshotTaken,
)
from hutch.sessions.state_before_last_run import before_last_run
from hutch.system.lazy_dataclass import dataclass
from hutch.system.terminal_safe_text import one_line

LAST_SNAPSHOTS = ("after the run", "when the agent was done")  # may be recorded after run.ended
# A snapshot may be taken before the end of a job, and recorded after it; the next is not.
SNAPSHOTS_AFTER = 2
AGENTS_SHELL = ("shell", "agent")
MAX_TEXT_CHARS = 60  # of a prompt or command in a title
Undone = SessionRewound | ChangesUndone
Change = FileChanged | FilesChanged


@dataclass(frozen=True, slots=True)
class TargetChange:
    """A recorded change to take back."""

    seq: int
    event: Change
    is_clear: bool = True  # False: others may have made it


@dataclass(frozen=True, slots=True)
class UndoTarget:
    """The part of a session that is undone."""

    title: str  # for people: `the run of 'Fix it'`
    changes: tuple[TargetChange, ...]
    run_id: str = ""
    to_seq: int = 0  # of a run: the conversation goes back to this event
    first: int = 0  # of a run: the snapshot before it
    last: int = 0  # of a run: its last snapshot
    seq: int = 0  # of a redo: the number of the undo
    author: str = ""  # of its changes, if it is known

    @property
    def is_run(self) -> bool:
        return bool(self.run_id)


def find_last_run(entries: Sequence[Entry]) -> UndoTarget | None:
    """The last run that was not undone; None if there is none."""
    found = before_last_run(entries)
    if found is None:
        return None
    to_seq, first, run_id = found
    reading = RunReading.of(entries, run_id)
    return UndoTarget(
        title=f"the run of {quoted(reading.prompt)}",
        changes=tuple(reading.changes),
        run_id=run_id,
        to_seq=to_seq,
        first=first,
        last=max(first, reading.last_snapshot),
        author=AGENT,
    )


def find_last_undo(entries: Sequence[Entry]) -> UndoTarget:
    """The last undo that was not redone."""
    undos: dict[int, Undone] = {}
    for entry in entries:
        match entry.event:
            case SessionRewound() | ChangesUndone() as event:
                undos[entry.seq] = event
            case SessionRedone(undone=seq):
                undos.pop(seq, None)
    if not undos:
        raise Conflict("There is nothing to redo: nothing was undone, or it was redone already.")
    seq = max(undos)
    event = undos[seq]
    if any(isinstance(entry.event, RunStarted) for entry in entries if entry.seq > seq):
        raise Conflict(
            "A run has begun since the last undo, so it cannot be redone. To bring back its files without "
            f"the conversation, undo its event as a step: `hutch undo --step {seq}`."
        )
    if not event.input:
        raise Conflict("The last undo was made by an earlier version of Hutch, which cannot be redone.")
    what = f" of {event.title}" if isinstance(event, ChangesUndone) else " of the last run"
    return UndoTarget(f"the undo{what}", changes_of_undo(entries, event), seq=seq)


def changes_of_undo(entries: Iterable[Entry], event: Undone | SessionRedone) -> tuple[TargetChange, ...]:
    """The changes that an undo or a redo has made."""
    source = str(event.input)
    return tuple(
        TargetChange(entry.seq, entry.event)
        for entry in entries
        if isinstance(entry.event, FileChanged | FilesChanged)
        and (entry.event.cause, entry.event.source) == ("undo", source)
    )


class RunReading:
    """Collects the changes of one run from the log."""

    def __init__(self, run_id: str) -> None:
        self.prompt = ""
        self.changes: list[TargetChange] = []
        self.last_snapshot = 0
        self._run_id = run_id
        self._is_current = False  # from its start to that of the next run
        self._is_working = False
        self._jobs: set[tuple[str, str]] = set()  # of the agent, still at work
        self._inherited: set[tuple[str, str]] = set()  # those of earlier runs
        self._fading = 0  # snapshots that may still show changes of one that has ended
        self._commands: set[str] = set()  # ids of tool calls that run commands

    @classmethod
    def of(cls, entries: Iterable[Entry], run_id: str) -> Self:
        reading = cls(run_id)
        for entry in entries:
            reading.add(entry)
        return reading

    def add(self, entry: Entry) -> None:
        match entry.event:
            case RunStarted(run_id=id, prompt=prompt):
                self._is_current = self._is_working = id == self._run_id
                if self._is_current:
                    self.prompt, self._inherited = prompt, set(self._jobs)
            case RunResumed(run_id=id):
                self._is_working = id == self._run_id
            case RunEnded(run_id=id) if id == self._run_id:
                self._is_working = False
            case SnapshotTaken(snapshot=number, reason=reason) if self._is_current:
                self._fading = max(0, self._fading - 1)
                if self._is_working or reason in LAST_SNAPSHOTS:
                    self.last_snapshot = max(self.last_snapshot, number)
            case FileChanged() | FilesChanged() as event if self._is_current:
                self._add_change(entry, event)
            case _:
                self._follow_jobs(entry)

    def _add_change(self, entry: Entry, event: Change) -> None:
        if event.cause in ("undo", "restore"):
            return
        is_agents = event.by == AGENT or (not event.by and bool(event.call_id))
        may_be = AGENT in event.possible_authors or (not event.possible_authors and self._is_working)
        if is_agents:
            is_exact = event.cause == "tool" and (event.alone or event.call_id not in self._commands)
            self.changes.append(
                TargetChange(entry.seq, event, is_clear=is_exact or not (self._inherited or self._fading))
            )
        elif not event.by and may_be:
            self.changes.append(TargetChange(entry.seq, event, is_clear=False))

    def _follow_jobs(self, entry: Entry) -> None:
        """Follow the agent's jobs, which may outlive their run."""
        match entry.event:
            case CommandStarted(call_id=id) if id:
                self._commands.add(id)
            case JobsDetached(shell="agent"):
                self._jobs.add(AGENTS_SHELL)
            case JobsEnded(shell="agent"):
                self._end_job(AGENTS_SHELL)
            case CommandYielded(by="agent", background_id=id):
                self._jobs.add(("background", id))
            case CommandEnded(background_id=str() as id):
                self._end_job(("background", id))
            case SessionParked():
                self._jobs.clear()
                self._inherited.clear()

    def _end_job(self, job: tuple[str, str]) -> None:
        self._jobs.discard(job)
        if job in self._inherited:
            self._inherited.discard(job)
            self._fading = SNAPSHOTS_AFTER


def quoted(text: str) -> str:
    return repr(one_line(text, MAX_TEXT_CHARS)) if text.strip() else "an empty prompt"
