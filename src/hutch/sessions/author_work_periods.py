"""Which authors were at work in a session, and when: by commands, jobs, terminals, tests of the agent.

The kernel stamps each change of a file with its time (ctime), which no process in a jail can set. So the
authors of a change are those who were at work at that time. Times are of the clock of these stamps.

A program may wait for hours: an editor, a server, `sleep`. Work whose processes can be followed counts only
while they may have run (`jail/command_cpu_activity.py`). Their clocks are read when work begins or
ends, after each scan, and until they stand still, so two readings surround each change.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from hutch.domain.current_actor_and_author import Actor, acting
from hutch.domain.events import CommandEnded, CommandStarted, CommandYielded, Event, JobsDetached, JobsEnded
from hutch.jail.command_cpu_activity import RunClock
from hutch.snapshots.disk_walk import TICK_NS, WHOLE_SECONDS_NS, Clock
from hutch.system.lazy_dataclass import dataclass

NEVER_NS = 1 << 63
FIRST_READING_S, MAX_READING_INTERVAL_S = 0.25, 30.0  # of clocks after work has begun
TERMINAL_JOBS = "terminal "  # begins the name of the jobs of a terminal
Key = tuple[Hashable, ...]


Span = tuple[int, int]  # start and end, in nanoseconds


@dataclass(slots=True)
class Work:
    """The time that one actor was at work."""

    actor: Actor
    began_ns: int
    ended_ns: int = NEVER_NS
    clock: RunClock | None = None  # of its processes, if they can be followed
    ran: tuple[Span, ...] = ()  # when they may have run
    read_ns: int = 0  # when the clock was last read

    def read_clock(self) -> bool:
        """Read it; True if its processes may have run since the last reading."""
        if self.clock is None:
            return False
        began_ns = Clock.now().began_ns
        has_run = self.clock.has_run()
        if has_run:
            start_ns = self.read_ns or self.began_ns
            if self.ran and self.ran[-1][1] >= start_ns:
                start_ns = self.ran[-1][0]
                self.ran = self.ran[:-1]
            self.ran = (*self.ran, (start_ns, time.time_ns()))
        self.read_ns = began_ns
        return has_run

    def end(self) -> None:
        if self.read_ns:
            self.read_clock()
        self.ended_ns = time.time_ns()
        if not self.read_ns:  # never read, so it may have run all the time
            self.ran = ((self.began_ns, self.ended_ns),)

    def may_change(self, start_ns: int, end_ns: int) -> bool:
        """True if it may have changed a file between these times, of which the last reading is the latest."""
        if self.began_ns > end_ns or self.ended_ns < start_ns:
            return False
        return self.clock is None or any(ran[0] <= end_ns and ran[1] >= start_ns for ran in self.ran)

    def forget_before(self, time_ns: int) -> None:
        self.ran = tuple(ran for ran in self.ran if ran[1] >= time_ns)


class Activity:
    """All work in one session. Only the event loop changes it; threads may ask about it."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] | None = None  # called when work begins or ends
        # Gives the clock of work that was begun under a key; None if its processes cannot be followed.
        self.find_clock: Callable[[Key], RunClock | None] | None = None
        self._reading = threading.Lock()
        self._timer: asyncio.TimerHandle | None = None  # of the next reading
        self._open: dict[Hashable, Work] = {}
        self._spans: tuple[Work, ...] = ()  # replaced, never changed: threads read it
        # The authors whose commands may have left the jobs of a shell or a terminal.
        self._job_authors: dict[str, set[str]] = {}
        self._recent: dict[str, str] = {}  # by shell: the author of its last command
        self._prompted_ns: dict[str, int] = {}  # by terminal: when it last waited for a command
        self.typed_at = 0.0  # when anything was last typed in a terminal; time.monotonic()

    @property
    def is_active(self) -> bool:
        return bool(self._open)

    @property
    def runs_commands(self) -> bool:
        """True if a command runs whose end is followed by a snapshot."""
        return any(work.actor.cause in ("command", "tool") for work in self._open.values())

    @property
    def has_several(self) -> bool:
        """True if several authors are at work, or one in a terminal, where versions follow each other."""
        actors = [work.actor for work in self._open.values()]
        return len({actor.by for actor in actors}) > 1 or any(actor.cause == "terminal" for actor in actors)

    def begin(self, key: Hashable, actor: Actor, *, since_ns: int = 0) -> None:
        """Note that an actor starts to work, or has worked `since_ns`; a key that is in use already stays."""
        if key not in self._open:
            work = Work(actor, since_ns or Clock.now().began_ns)
            if self.find_clock is not None and isinstance(key, tuple):
                work.clock = self.find_clock(key)
            self.read_clocks()
            self._open[key] = work
            self._spans = (*self._spans, work)
            self._read_soon()
            if self.on_change is not None:
                self.on_change()

    def read_clocks(self) -> bool:
        """Find out which work may have changed files since the last reading, if any. Threads may call it."""
        with self._reading:
            have_run = [work.read_clock() for work in tuple(self._open.values())]
        return any(have_run)

    def end(self, key: Hashable) -> None:
        work = self._open.pop(key, None)
        if work is not None:
            self.read_clocks()
            work.end()
            if self.find_clock is not None and self._open:
                # Others may run next: a reading in another tick of the files' clock separates their changes.
                asyncio.get_running_loop().call_later(2 * TICK_NS / 1e9, self.read_clocks)
            if self.on_change is not None:
                self.on_change()

    @contextmanager
    def working(self, actor: Actor) -> Iterator[None]:
        """Note work of an actor, who is also the current one, within the block."""
        key = object()
        self.begin(key, actor)
        try:
            with acting(actor):
                yield
        finally:
            self.end(key)

    def note(self, event: Event) -> None:
        """Note a report of the jail about a command or a job."""
        match event:
            case CommandStarted(shell=shell, by=by, call_id=call_id) if shell:
                self._recent[shell] = by
                actor = Actor(by, "tool", call_id, call_id) if call_id else Actor(by, "command", shell)
                self.end(("shell", shell))  # a command that could not be recorded has no end
                self.begin(("shell", shell), actor)
                if shell in self._job_authors:
                    self._add_jobs(shell, "", by)
            case CommandStarted(terminal=terminal, by=by) if terminal:
                # A command that was typed ahead began after the prompt, maybe before its mark was read.
                typing = self._typing(terminal)
                if by or not typing:  # otherwise it is the work of one of those who type
                    since_ns = 0 if typing else self._prompted_ns.get(terminal, 0)
                    self.prompted(terminal)
                    author = by or self._recent.get(f"{TERMINAL_JOBS}{terminal}", "")
                    self.typed(terminal, author, since_ns=since_ns)
            case CommandEnded(terminal=terminal) if terminal:
                self.prompted(terminal)
            case CommandYielded(shell=shell, background_id=id):
                work = self._open.get(("shell", shell))
                if work is not None:
                    self.begin(("background", id), replace(work.actor, cause="job", source=id))
                self.end(("shell", shell))
                # The command keeps its shell process, and with it the jobs that earlier commands left there.
                for by in self._job_authors.get(shell, ()):
                    self.begin(("jobs beside", id, by), Actor(by, "job", shell))
            case CommandEnded(shell=shell, background_id=id, by=by) if shell:
                self.end(("background", id) if id else ("shell", shell))
                for key in [each for each in self._open if isinstance(each, tuple) and id and each[1] == id]:
                    self.end(key)
                self._renew_jobs(shell, by)
            case JobsDetached(shell=shell, terminal=terminal, by=by):
                by = by or self._recent.get(shell or f"{TERMINAL_JOBS}{terminal}", "")
                # They may be found a moment after the prompt, and were at work meanwhile.
                self._add_jobs(shell, terminal, by, since_ns=self._prompted_ns.get(terminal, 0))
            case JobsEnded(shell=shell, terminal=terminal, background_id=None):
                source = shell or f"{TERMINAL_JOBS}{terminal}"
                for by in self._job_authors.pop(source, ()):
                    self.end(("jobs", source, by))

    def typed(self, terminal: str, by: str, *, since_ns: int = 0) -> None:
        """Note that a user types in a terminal, or that a command which they typed runs, until `prompted`."""
        self.typed_at = time.monotonic()
        self._recent[f"{TERMINAL_JOBS}{terminal}"] = by
        self.begin(("terminal", terminal, by), Actor(by, "terminal", terminal), since_ns=since_ns)
        self._read_soon()

    def prompted(self, terminal: str) -> None:
        """Note that a terminal waits for its next command, or has ended."""
        for key in self._typing(terminal):
            self.end(key)
        source = f"{TERMINAL_JOBS}{terminal}"
        self._renew_jobs(source, self._recent.get(source, ""))
        self._prompted_ns[terminal] = Clock.now().began_ns

    def _typing(self, terminal: str) -> list[Hashable]:
        return [key for key in self._open if isinstance(key, tuple) and key[:2] == ("terminal", terminal)]

    def at(self, changed_ns: int) -> Sequence[Actor]:
        """Those at work when a file changed; the one that began last comes last."""
        # Some file systems store whole seconds.
        slack_ns = 0 if changed_ns % 1_000_000_000 else WHOLE_SECONDS_NS
        return _actors(self._spans, changed_ns, changed_ns + slack_ns)

    def between(self, start_ns: int, end_ns: int) -> Sequence[Actor]:
        """Those at work at any time between these two."""
        return _actors(self._spans, start_ns, end_ns)

    def forget_before(self, time_ns: int) -> None:
        """Forget work that ended before that time."""
        with self._reading:
            self._spans = tuple(work for work in self._spans if work.ended_ns >= time_ns)
            for work in self._spans:
                work.forget_before(time_ns)

    def _renew_jobs(self, source: str, by: str) -> None:
        """Follow jobs that a command of this author, or of an unknown one, may have left."""
        with self._reading:
            for key, work in self._open.items():
                if isinstance(key, tuple) and key[:2] == ("jobs", source) and work.clock is not None:
                    work.clock.renew(has_run=not by or key[2] == by)

    def _read_soon(self, delay_s: float = FIRST_READING_S) -> None:
        """Read the clocks until they stand still: the next reading then tells whether they have moved."""
        if self.find_clock is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._read_again, delay_s)

    def _read_again(self, delay_s: float) -> None:
        self._timer = None
        if self.read_clocks():
            self._read_soon(min(2 * delay_s, MAX_READING_INTERVAL_S))

    def _add_jobs(self, shell: str, terminal: str, by: str, *, since_ns: int = 0) -> None:
        source = shell or f"{TERMINAL_JOBS}{terminal}"
        self._job_authors.setdefault(source, set()).add(by)
        self.begin(("jobs", source, by), Actor(by, "job", shell or terminal), since_ns=since_ns)


def _actors(spans: Sequence[Work], start_ns: int, end_ns: int) -> list[Actor]:
    return [work.actor for work in spans if work.may_change(start_ns, end_ns)]
