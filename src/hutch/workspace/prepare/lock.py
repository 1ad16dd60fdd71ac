"""A lock between tasks and processes alike, which ends with whoever holds it."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

FIRST_WAIT_S, LONGEST_WAIT_S = 0.002, 0.1


@asynccontextmanager
async def locked(path: Path, *, shared: bool = False) -> AsyncIterator[None]:
    """Hold the lock at `path`, after waiting for it as long as it takes."""
    wait_s = FIRST_WAIT_S
    while (fd := take(path, shared=shared)) is None:
        await asyncio.sleep(wait_s)
        wait_s = min(2 * wait_s, LONGEST_WAIT_S)
    try:
        yield
    finally:
        os.close(fd)


def take(path: Path, *, shared: bool = False) -> int | None:
    """A descriptor that holds the lock until it is closed, or None when somebody else does."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            if _is_at(fd, path):
                return fd
            os.close(fd)  # its holder removed it, and the next one has another file
        except BlockingIOError:
            os.close(fd)
            return None


def _is_at(fd: int, path: Path) -> bool:
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    mine = os.fstat(fd)
    return (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino)
