"""Keeps the log readable while a collector does not respond, or accepts traces but no metrics.

The library logs each failed export: two lines per second for as long as the collector is away.
"""

import logging
import time
from collections.abc import Callable

EXPORTERS = "opentelemetry.exporter.otlp.proto.http"
REPEAT_AFTER_S = 3600.0


class RepeatedMessageFilter(logging.Filter):
    """Lets each message through once per hour. Values in its text do not make it another message."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._again_at: dict[str, float] = {}  # as many as the library has messages

    def filter(self, record: logging.LogRecord) -> bool:
        now, message = self._clock(), str(record.msg)
        if now < self._again_at.get(message, now):
            return False
        self._again_at[message] = now + REPEAT_AFTER_S
        return True


def filter_exporter_problems(kind: str) -> None:
    """Log each problem of the `trace_exporter` or `metric_exporter` once per hour."""
    logger = logging.getLogger(f"{EXPORTERS}.{kind}")
    if not any(isinstance(each, RepeatedMessageFilter) for each in logger.filters):
        logger.addFilter(RepeatedMessageFilter())
