"""Who is at work in a session, and when: commands, jobs, terminals, tests of the agent.

The kernel stamps each change of a file with its time (ctime), which no process in a jail can set. So the
authors of a change are those who were at work at that time. Times are of the clock of these stamps.
"""

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from hutch.domain.author import Actor, acting
from hutch.domain.events import (
    CommandEnded,
    CommandStarted,
    CommandYielded,
    Event,
    JobsDetached,
    JobsEnded,
)
from hutch.snapshots.tree_walk import WHOLE_SECONDS_NS, Clock

NEVER_NS = 1 << 63


@dataclass(slots=True)
class Work:
    """The time that one actor was at work."""

    actor: Actor
    began_ns: int
    ended_ns: int = NEVER_NS


class Activity:
    """All work in one session. Only the event loop changes it; threads may ask about it."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] | None = None  # called when work begins or ends
        self._open: dict[Hashable, Work] = {}
        self._spans: tuple[Work, ...] = ()  # replaced, never changed: threads read it
        # The authors whose commands may have left the jobs of a shell or a terminal.
        self._job_authors: dict[str, set[str]] = {}
        self._recent: dict[str, str] = {}  # by shell: the author of its last command
        self._prompted_ns: dict[str, int] = {}  # by terminal: when it last waited for a command

    @property
    def is_active(self) -> bool:
        return bool(self._open)

    @property
    def runs_commands(self) -> bool:
        """Whether a command runs whose end is followed by a snapshot."""
        return any(work.actor.cause in ("command", "tool") for work in self._open.values())

    def begin(self, key: Hashable, actor: Actor, *, since_ns: int = 0) -> None:
        """Note that an actor starts to work, or has worked `since_ns`; a key that is in use already stays."""
        if key not in self._open:
            work = self._open[key] = Work(actor, since_ns or Clock.now().began_ns)
            self._spans = (*self._spans, work)
            if self.on_change is not None:
                self.on_change()

    def end(self, key: Hashable) -> None:
        work = self._open.pop(key, None)
        if work is not None:
            work.ended_ns = time.time_ns()
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
                since_ns = 0 if self._typing(terminal) else self._prompted_ns.get(terminal, 0)
                self.prompted(terminal)
                self.typed(terminal, by or self._recent.get(f"terminal {terminal}", ""), since_ns=since_ns)
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
            case CommandEnded(shell=shell, background_id=id) if shell:
                self.end(("background", id) if id else ("shell", shell))
                for key in [each for each in self._open if isinstance(each, tuple) and id and each[1] == id]:
                    self.end(key)
            case JobsDetached(shell=shell, terminal=terminal):
                self._add_jobs(shell, terminal, self._recent.get(shell or f"terminal {terminal}", ""))
            case JobsEnded(shell=shell, terminal=terminal):
                source = shell or f"terminal {terminal}"
                for by in self._job_authors.pop(source, ()):
                    self.end(("jobs", source, by))

    def typed(self, terminal: str, by: str, *, since_ns: int = 0) -> None:
        """Note that a user types in a terminal, or that a command which they typed runs, until `prompted`."""
        self._recent[f"terminal {terminal}"] = by
        self.begin(("terminal", terminal, by), Actor(by, "terminal", terminal), since_ns=since_ns)

    def prompted(self, terminal: str) -> None:
        """Note that a terminal waits for its next command, or has ended."""
        for key in self._typing(terminal):
            self.end(key)
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
        self._spans = tuple(work for work in self._spans if work.ended_ns >= time_ns)

    def _add_jobs(self, shell: str, terminal: str, by: str) -> None:
        source = shell or f"terminal {terminal}"
        self._job_authors.setdefault(source, set()).add(by)
        self.begin(("jobs", source, by), Actor(by, "job", shell or terminal))


def _actors(spans: Sequence[Work], start_ns: int, end_ns: int) -> list[Actor]:
    return [work.actor for work in spans if work.began_ns <= end_ns and work.ended_ns >= start_ns]
