"""Things on this machine that belong to one Hutch process, and go when it has gone.

A name that holds the process's pid and the moment it started is never used
again, so whoever comes later can tell what a crash has left behind.
"""

import functools
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "hutch-jail"


def own_mark() -> str:
    """This process's part of a name."""
    return f"{os.getpid()}.{_started(os.getpid())}"


def is_left_over(mark: str) -> bool:
    """Whether the process that a name was made by is gone."""
    pid, _, started = mark.partition(".")
    return pid.isdigit() and _started(int(pid)) != started


def make_directory(prefix: str = PREFIX) -> Path:
    """A private directory, by default for what a jail's commands print; removes what dead processes left."""
    _sweep(prefix)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}-{own_mark()}-"))


@functools.cache
def _sweep(prefix: str) -> None:
    for directory in Path(tempfile.gettempdir()).glob(f"{prefix}-*.*-*"):
        mark = directory.name.removeprefix(f"{prefix}-").partition("-")[0]
        try:
            own = directory.lstat().st_uid == os.geteuid()
        except FileNotFoundError:  # another process sweeps, too
            continue
        if own and is_left_over(mark):
            shutil.rmtree(directory, ignore_errors=True)


def _started(pid: int) -> str:
    """When a process started, in the kernel's ticks; "" when there is none."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return told.rpartition(")")[2].split()[19]
