"""Names for directories and groups that belong to one Hutch process.

A name contains the process's pid and start time and is never used again. So a later
process can tell which ones a crash has left behind.
"""

import functools
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "hutch-jail"


def own_mark() -> str:
    """This process's part of a name: pid and start time."""
    return f"{os.getpid()}.{_started(os.getpid())}"


def is_left_over(mark: str) -> bool:
    """True if the process that made a name has ended."""
    pid, _, started = mark.partition(".")
    return pid.isdigit() and _started(int(pid)) != started


def make_directory(prefix: str = PREFIX) -> Path:
    """Make a private directory, by default for command output, and remove those of processes that ended."""
    _sweep(prefix)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}-{own_mark()}-"))


@functools.cache
def _sweep(prefix: str) -> None:
    for directory in Path(tempfile.gettempdir()).glob(f"{prefix}-*.*-*"):
        mark = directory.name.removeprefix(f"{prefix}-").partition("-")[0]
        try:
            own = directory.lstat().st_uid == os.geteuid()
        except FileNotFoundError:  # another process sweeps too
            continue
        if own and is_left_over(mark):
            shutil.rmtree(directory, ignore_errors=True)


def _started(pid: int) -> str:
    """A process's start time in kernel ticks; "" when it does not exist."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]
