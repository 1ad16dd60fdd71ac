"""Finds the runs of other workers that are lost.

A worker renews the leases of its runs, and each renewal writes another value. A lease whose
value stays the same for its whole length, by the observer's monotonic clock, belongs to a
worker that has ended. The value is not compared with the time. If the wall clock were set
forward, every lease would expire at once and its run would be worked on twice. If it were
set back, no lease would expire for hours.
"""

import time
from collections.abc import Callable, Mapping

Lease = tuple[str, int]  # a run and the value of its lease


class LeaseWatch:
    """Remembers since when each lease has had its value."""

    def __init__(self, lease_ms: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease_s = lease_ms / 1000
        self._clock = clock
        self._since: dict[Lease, float] = {}

    def lost(self, leases: Mapping[str, int]) -> list[Lease]:
        """The current leases that were not renewed in time."""
        now = self._clock()
        self._since = {lease: self._since.get(lease, now) for lease in leases.items()}
        return [lease for lease, since in self._since.items() if now - since >= self._lease_s]
