"""How often somebody may ask: a bucket each, that fills again by itself.

In memory: what a restart forgives is one minute's worth.
"""

import time
from collections.abc import Callable

from hutch.domain.client_address import address_key

__all__ = ["Buckets", "address_key"]

MAX_KEPT = 20_000


class Buckets:
    """A bucket holds a minute's worth of requests, and refills evenly."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._size = float(per_minute)
        self._per_s = per_minute / 60
        self._clock = clock
        self._full_at: dict[str, float] = {}  # when each would be full again; full ones are not kept

    def take(self, key: str) -> int:
        """Take one out: 0, or after how many seconds there is one again."""
        now = self._clock()
        full_at = max(self._full_at.get(key, now), now) + 1 / self._per_s
        missing = (full_at - now) * self._per_s - self._size
        if missing > 1e-9:
            return max(1, round(missing / self._per_s))
        if key not in self._full_at and len(self._full_at) >= MAX_KEPT:
            self._sweep(now)
        self._full_at[key] = full_at
        return 0

    def put_back(self, key: str) -> None:
        """Give back what was taken before it was known who asks."""
        if key in self._full_at:
            self._full_at[key] -= 1 / self._per_s

    def _sweep(self, now: float) -> None:
        """Drop the full ones; if strangers have filled the table all the same, drop the oldest half."""
        kept = {key: full_at for key, full_at in self._full_at.items() if full_at > now}
        if len(kept) >= MAX_KEPT:
            kept = dict(sorted(kept.items(), key=lambda item: item[1])[MAX_KEPT // 2 :])
        self._full_at = kept
