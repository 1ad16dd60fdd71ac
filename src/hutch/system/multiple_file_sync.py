"""Flushes several files and directories to disk at once: a file system commits them together."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path


def sync_together(fds: Sequence[int]) -> None:
    """Flush files or directories to disk at the same time: a file system commits them as one. Blocks the
    thread."""
    first, *others = fds
    with ThreadPoolExecutor(max(1, len(others)), "sync") as threads:
        waiting = [threads.submit(os.fsync, fd) for fd in others]
        os.fsync(first)
        for each in waiting:
            each.result()


def sync_directories(*paths: Path) -> None:
    """Flush the entries of several directories to disk at the same time. Blocks the thread."""
    with ExitStack() as stack:
        fds = [os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) for path in paths]
        for fd in fds:
            stack.callback(os.close, fd)
        sync_together(fds)
