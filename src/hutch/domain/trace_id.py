"""The trace id, which links a request to all work and log lines that it causes."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import structlog


def trace_id() -> str:
    """The current trace id; empty outside of a trace."""
    return str(structlog.contextvars.get_contextvars().get("trace_id", ""))


@contextmanager
def traced(id: str, **also: str) -> Iterator[None]:
    """Bind a trace id, or a new one, to all log lines inside."""
    with structlog.contextvars.bound_contextvars(trace_id=id or secrets.token_hex(16), **also):
        yield
