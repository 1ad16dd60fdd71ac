"""Whether this kernel tells who a process's children are.

The watcher finds everybody in a jail by /proc/PID/task/TID/children. A kernel
built without CONFIG_PROC_CHILDREN has no such file, and the watcher would see
nobody: without a cgroup, memory would have no limit.
"""

import os
from pathlib import Path


def lists_children(proc: Path = Path("/proc")) -> bool:
    """Look at our own."""
    me = os.getpid()
    return (proc / f"{me}/task/{me}/children").is_file()


def complaint(*, listed: bool) -> str | None:
    """What to tell the operator, if there is something to tell."""
    if listed:
        return None
    return (
        "This kernel was built without CONFIG_PROC_CHILDREN, so memory and processes of a jail cannot be "
        "watched. Run Hutch where it may make cgroups, or use a kernel with that option."
    )
