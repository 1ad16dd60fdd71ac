"""What goes wrong between us and a model, sorted by what helps."""


class Transient(Exception):
    """It may work the next time: too many requests, a server's own trouble, a stream that broke."""

    def __init__(self, reason: str, *, status: int | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.retry_after_s = retry_after_s


TRANSIENT_STATUSES = frozenset({408, 409, 425, 429, *range(500, 600)})
