"""A token bucket per caller, which refills at a constant rate.

The buckets are in memory: a restart forgives at most one minute's worth of requests.
"""

import time
from collections.abc import Callable

from hutch.domain.rate_limited_address import address_key

__all__ = ["RateLimiter", "address_key"]

MAX_BUCKETS = 20_000


class RateLimiter:
    """A bucket holds a minute's worth of requests, and refills evenly."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._size = float(per_minute)
        self._per_s = per_minute / 60
        self._clock = clock
        self._full_at: dict[str, float] = {}  # when each will be full again; full ones are not stored

    def take(self, key: str) -> int:
        """Take one token. Returns 0, or the seconds until the next token if there is none."""
        now = self._clock()
        full_at = max(self._full_at.get(key, now), now) + 1 / self._per_s
        missing = (full_at - now) * self._per_s - self._size
        if missing > 1e-9:
            return max(1, round(missing / self._per_s))
        if key not in self._full_at and len(self._full_at) >= MAX_BUCKETS:
            self._sweep(now)
        self._full_at[key] = full_at
        return 0

    def put_back(self, key: str) -> None:
        """Return a token that was taken before the caller was identified."""
        if key in self._full_at:
            self._full_at[key] -= 1 / self._per_s

    def _sweep(self, now: float) -> None:
        """Drop full buckets; if the table is still full, drop the half that will be full soonest."""
        remaining = {key: full_at for key, full_at in self._full_at.items() if full_at > now}
        if len(remaining) >= MAX_BUCKETS:
            remaining = dict(sorted(remaining.items(), key=lambda item: item[1])[MAX_BUCKETS // 2 :])
        self._full_at = remaining
