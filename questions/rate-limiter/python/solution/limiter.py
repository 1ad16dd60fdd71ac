"""Limits how many requests a client may send in a sliding window of time."""

from collections import defaultdict, deque


class RateLimiter:
    def __init__(self, limit: int, window_ms: int) -> None:
        self.limit = limit
        self.window_ms = window_ms
        self._counted: defaultdict[str, deque[int]] = defaultdict(deque)  # times, the oldest first

    def allow(self, client: str, now_ms: int) -> bool:
        """Count the request and return True, or return False if the client must wait."""
        if self.remaining(client, now_ms) == 0:
            return False
        self._counted[client].append(now_ms)
        return True

    def remaining(self, client: str, now_ms: int) -> int:
        """The number of requests that would be allowed at this moment."""
        times = self._counted.get(client)
        if times is None:
            return self.limit
        while times and times[0] + self.window_ms <= now_ms:
            times.popleft()
        return self.limit - len(times)
