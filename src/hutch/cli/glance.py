"""A glance into the database: quick, without the store, and without a trace.

For the doctor, who looks at what may be broken, and for completion, which cannot
wait. A reader in WAL mode would leave files of its own beside the database, or
fail where it may not; one that is told that nobody writes does neither.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def glance(file: Path, ask: Callable[[sqlite3.Connection], T], *, within_s: float) -> T:
    """What `ask` finds in the database; the last error when it cannot be read in any way.

    A query that takes longer than `within_s` is interrupted.
    """
    problem: sqlite3.Error | None = None
    for way in _ways(file):
        try:
            uri = f"{file.absolute().as_uri()}?{way}"
            with closing(sqlite3.connect(uri, uri=True, timeout=within_s)) as connection:
                connection.set_progress_handler(_past(time.monotonic() + within_s), 10_000)
                return ask(connection)
        except sqlite3.Error as error:
            problem = error
    assert problem
    raise problem


def _past(deadline: float) -> Callable[[], bool]:
    return lambda: time.monotonic() > deadline


def _ways(file: Path) -> Iterator[str]:
    """The parameters to open it with, best first; the next is asked for only when one has failed."""
    if not _beside(file):
        yield "mode=ro&immutable=1"
        if not _beside(file):
            return  # nobody began to write meanwhile, so the other way would find the same
    # An index is not written to: after a crash, it is the witness of what was committed last.
    yield "mode=ro&readonly_shm=1" if "-shm" in _beside(file) else "mode=ro"
    sizes_bytes = _beside(file)
    if "-journal" not in sizes_bytes and sizes_bytes.get("-wal", 0) == 0:
        yield "mode=ro&immutable=1"


def _beside(file: Path) -> dict[str, int]:
    """The files in which SQLite keeps what is not in the database yet, with their sizes."""
    sizes_bytes = {}
    for ending in ("-wal", "-shm", "-journal"):
        with suppress(OSError):
            sizes_bytes[ending] = file.with_name(file.name + ending).stat().st_size
    return sizes_bytes
