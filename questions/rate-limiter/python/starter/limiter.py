"""Limits how many requests a client may send in a sliding window of time."""


class RateLimiter:
    def __init__(self, limit: int, window_ms: int) -> None:
        self.limit = limit
        self.window_ms = window_ms

    def allow(self, client: str, now_ms: int) -> bool:
        """Count the request and return True, or return False if the client must wait."""
        raise NotImplementedError

    def remaining(self, client: str, now_ms: int) -> int:
        """The number of requests that would be allowed at this moment."""
        raise NotImplementedError
