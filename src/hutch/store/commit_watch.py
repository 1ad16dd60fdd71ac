"""The interface of a watch for commits of other processes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from hutch.domain.events import Entry
from hutch.domain.ids import SessionId
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LogGrowth:
    """The new length of a log, and its new entries if they are in memory."""

    seq: int
    entries: Sequence[Entry] = ()


Report = Callable[[Mapping[SessionId, LogGrowth] | None], None]
"""Gets the logs that have grown; None: any log may have grown."""


class CommitWatch(Protocol):
    """Watches the commits to a database. Its methods block; an error ends them, and they are called again."""

    def run(self, is_needed: Callable[[], bool], report: Report) -> None:
        """Report growth while it is needed. Begins with None: earlier commits were not watched."""
        ...

    def interrupt(self) -> None:
        """Make `run` look soon whether it is still needed. Called by another thread."""
        ...
