"""A lock that is released when its process ends, even after a crash."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hutch.domain.errors import Conflict
from hutch.store.database import translate_errors
from hutch.system.file_lock import try_lock


@contextmanager
def hold_process_lock(path: Path, *, holder: str) -> Iterator[None]:
    """Hold the lock at `path`, or raise with the holder's process id. The file itself stays."""
    with translate_errors(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = try_lock(path)
    if held is None:
        pid = path.read_text()[:20].strip() or "unknown"
        raise Conflict(
            f"Another {holder} (process {pid}) is using {path.parent}. Stop it first, "
            "or set HUTCH_HOME to another directory."
        )
    try:
        with translate_errors(path):
            os.ftruncate(held, os.write(held, f"{os.getpid()}\n".encode()))
        yield
    finally:
        os.close(held)
