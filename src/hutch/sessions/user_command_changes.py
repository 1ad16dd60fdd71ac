"""Finds which files users' commands may have changed while an agent worked.

The log does not say which files a command wrote. So a command counts with all changes between
two snapshots: the last one before it started, and one taken after its end. Snapshots are taken
around each command of the API. Around a command typed in a terminal there are only those after
the agent's own steps, so the files of such a step count too. Jobs that a command leaves running
count until they have ended, and so do jobs of an earlier run. Where the log says that such
events could not be written, they count as if they were there.
"""

import re
from collections.abc import Iterable, Sequence

from hutch.domain.events import (
    CommandEnded,
    CommandStarted,
    CommandYielded,
    Entry,
    Event,
    EventsOmitted,
    JobsDetached,
    JobsEnded,
    RunEnded,
    RunStarted,
    SessionParked,
    SnapshotTaken,
    TerminalEnded,
    TerminalPrinted,
)

AGENTS_SHELL = "agent"
BEFORE_COMMAND, AFTER_COMMAND = "before a command in ", "after a command in "  # and the shell's name
BEFORE_RESTORE, AFTER_RESTORE = "before going back to ", "back to "  # and the snapshot's number
RESERVED = (BEFORE_COMMAND, AFTER_COMMAND, BEFORE_RESTORE, AFTER_RESTORE)
# An agent's snapshot may be taken before the end of a command, and written after it; the next is not.
SNAPSHOTS_AFTER = 2
# The end of a shell's output when it waits for a command; colours and marks may follow it.
PROMPT = re.compile(r"[$#%>❯] ?(?:\x1b\[[0-9;?]*[A-Za-z]|\x1b\]133;[A-Za-z0-9;]*(?:\x07|\x1b\\))*$")

Key = tuple[str, str]
OMITTED: Key = ("omitted", "")


def spans(entries: Iterable[Entry], run_id: str, before: int, now: int) -> list[tuple[int, int]]:
    """Pairs of snapshots between which users' commands ran during a run, in order and without overlaps.

    `before` is the snapshot at the start of the run, `now` the newest one.
    """
    found = _Spans()
    for entry in entries:
        if isinstance(entry.event, RunEnded) and entry.event.run_id == run_id:
            break
        if isinstance(entry.event, RunStarted) and entry.event.run_id == run_id:
            found.begin_run()
        if isinstance(entry.event, Event):
            found.add(entry.event)
    merged: list[tuple[int, int]] = []
    for start, end in sorted([*found.done, *((start, now) for start in found.unfinished)]):
        start = max(start, before)
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif start < end:
            merged.append((start, end))
    return merged


class _Spans:
    def __init__(self) -> None:
        self.done: set[tuple[int, int]] = set()  # the snapshots before and after
        self._last = 0  # snapshot
        self._open: dict[Key, int] = {}  # running commands and jobs, and the snapshot before each
        self._over: list[tuple[Key, int, int]] = []  # those that have ended, and how many snapshots ago
        self._with_jobs: set[Key] = set()  # shells and terminals with jobs, of users or of the agent
        self._is_inside = False  # the run

    @property
    def unfinished(self) -> Sequence[int]:
        """The snapshots before commands that have no snapshot after them yet."""
        return [*self._open.values(), *(start for _, start, _ in self._over)]

    def add(self, event: Event) -> None:
        match event:
            case SnapshotTaken(snapshot=number, reason=reason):
                self._take(number, reason)
            case CommandStarted(shell=shell) if shell != AGENTS_SHELL or not self._is_inside:
                self._begin(("command", shell))
            case CommandYielded(shell=shell, background_id=id) if ("command", shell) in self._open:
                self._open["background", id] = self._open.pop(("command", shell))
            case CommandEnded(shell=shell, background_id=id):
                self._end_command(("background", id) if id else ("command", shell), shell)
            case JobsDetached(shell=shell, terminal=id):
                self._leave_jobs(("terminal", id) if id else ("command", shell))
            case JobsEnded(shell=shell, terminal=id):
                source = ("terminal", id) if id else ("command", shell)
                self._with_jobs.discard(source)
                self._end(_jobs(source))
            case TerminalPrinted(terminal=id, text=text):
                self._begin(("terminal", id))
                if PROMPT.search(text):
                    self._end(("terminal", id))
            case TerminalEnded(terminal=id):
                self._end(("terminal", id))
            case EventsOmitted(types=types) if "jobs.detached" in types:
                self._begin(OMITTED)  # the end of these jobs is unknown
            case EventsOmitted(types=types) if "terminal.printed" in types:
                self._begin(OMITTED)
                self._end(OMITTED)
            case SessionParked():
                self._with_jobs.clear()
                for key in list(self._open):
                    self._end(key)

    def begin_run(self) -> None:
        """Start the run. Its first snapshot contains the changes of commands that ended before."""
        self._is_inside = True
        self._over = [each for each in self._over if each[2] == 0]

    def _begin(self, key: Key) -> None:
        self._open.setdefault(key, self._last)

    def _leave_jobs(self, source: Key) -> None:
        self._with_jobs.add(source)
        is_agents = source == ("command", AGENTS_SHELL) and self._is_inside and source not in self._open
        if not is_agents:
            starts = [start for key, start, _ in self._over if key == source]
            self._open.setdefault(_jobs(source), self._open.get(source, min(starts, default=self._last)))

    def _end_command(self, key: Key, shell: str) -> None:
        if key in self._open and ("command", shell) in self._with_jobs:
            self._open.setdefault(_jobs(("command", shell)), self._open[key])
        self._end(key)

    def _end(self, key: Key) -> None:
        if key in self._open:
            self._over.append((key, self._open.pop(key), 0))

    def _take(self, number: int, reason: str) -> None:
        self._last = number
        if reason.startswith(BEFORE_COMMAND):
            self._begin(("command", reason.removeprefix(BEFORE_COMMAND)))
        elif reason.startswith(BEFORE_RESTORE):
            self._begin(("restore", reason.removeprefix(BEFORE_RESTORE)))
        elif reason.startswith(AFTER_COMMAND):
            self._close(("command", reason.removeprefix(AFTER_COMMAND)), number)
        elif reason.startswith(AFTER_RESTORE):
            self._close(("restore", reason.removeprefix(AFTER_RESTORE)), number)
        over, self._over = [(key, start, count + 1) for key, start, count in self._over], []
        for key, start, count in over:
            if count < SNAPSHOTS_AFTER:
                self._over.append((key, start, count))
            else:
                self.done.add((start, number))

    def _close(self, key: Key, number: int) -> None:
        """End a command; snapshot `number` was taken after it."""
        self._end(key)
        self.done |= {(start, number) for each, start, _ in self._over if each == key}
        self._over = [each for each in self._over if each[0] != key]


def _jobs(source: Key) -> Key:
    return ("jobs of a " + source[0], source[1])
