"""Errors of providers that a retry may solve."""


class Transient(Exception):
    """A retry may succeed: too many requests, an error of the server, a broken stream."""

    def __init__(self, reason: str, *, status: int | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.retry_after_s = retry_after_s


TRANSIENT_STATUSES = frozenset({408, 409, 425, 429, *range(500, 600)})
