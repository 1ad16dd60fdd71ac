"""One id, by which a request is followed through all that comes of it."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import structlog


def trace_id() -> str:
    """Of what is being done now; empty when nobody asked for it."""
    return str(structlog.contextvars.get_contextvars().get("trace_id", ""))


@contextmanager
def traced(id: str, **also: str) -> Iterator[None]:
    """What is done inside belongs to this trace, or to a new one; every line of the log says so."""
    with structlog.contextvars.bound_contextvars(trace_id=id or secrets.token_hex(16), **also):
        yield
