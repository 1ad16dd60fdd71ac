"""Locks between tasks, threads and processes. A lock ends with its process, however that ends.

The lock is a separate file next to the protected one, which is often replaced.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

FIRST_DELAY_S, MAX_DELAY_S = 0.002, 0.1
FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


@contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock at `path`, in an existing directory. Blocks until the lock is free."""
    fd = os.open(path, FLAGS, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@asynccontextmanager
async def locked_async(path: Path, *, shared: bool = False) -> AsyncIterator[None]:
    """The same for tasks: others run while this one waits. The holder may remove the file."""
    wait_s = FIRST_DELAY_S
    while (fd := try_lock(path, shared=shared)) is None:
        await asyncio.sleep(wait_s)
        wait_s = min(2 * wait_s, MAX_DELAY_S)
    try:
        yield
    finally:
        os.close(fd)


@asynccontextmanager
async def locked_by_name(directory: Path, name: str) -> AsyncIterator[None]:
    """Hold the lock with this name in a directory, which is created if it is missing."""
    await asyncio.to_thread(directory.mkdir, mode=0o700, parents=True, exist_ok=True)
    async with locked_async(directory / f"{name}.lock"):
        yield


def try_lock(path: Path, *, shared: bool = False) -> int | None:
    """A descriptor that holds the lock until it is closed, or None when another holder has it."""
    while True:
        fd = os.open(path, FLAGS, 0o600)
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            if _is_at(fd, path):
                return fd
            os.close(fd)  # its holder removed it, so the next holder locks a new file
        except BlockingIOError:
            os.close(fd)
            return None


def _is_at(fd: int, path: Path) -> bool:
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(fd))
