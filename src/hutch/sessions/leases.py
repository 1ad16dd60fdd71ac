"""Which runs of other workers are lost.

A worker renews the leases of its runs, and each renewal writes another value. A
lease whose value stays the same for its whole length, by the monotonic clock of the
observer, belongs to a worker that is gone. The value itself is not compared with the
time: when the wall clock is set forward every lease would be over at once, and its
runs would be worked on twice; when it is set back, none would be for hours.
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
        """Those of the present leases that nobody has renewed in time."""
        now = self._clock()
        self._since = {lease: self._since.get(lease, now) for lease in leases.items()}
        return [lease for lease, since in self._since.items() if now - since >= self._lease_s]
