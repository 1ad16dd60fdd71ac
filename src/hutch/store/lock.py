"""A lock that ends with its process, however that ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hutch.domain.errors import Conflict
from hutch.store.database import plain_errors


@contextmanager
def hold(path: Path, *, holder: str) -> Iterator[None]:
    """Hold the lock at `path`, or say who does. The file stays; only the lock counts."""
    with plain_errors(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = file.read(20).strip() or "unknown"
            raise Conflict(
                f"Another {holder} (process {pid}) is using {path.parent}. Stop it first, "
                "or set HUTCH_HOME to another directory."
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
