"""Files that processes of a jail have mapped into memory, shared with the file.

A write through such a mapping changes the file without a system call, and only the first one to a page
changes its time stamps. So the content of a mapped file may differ although its time stamps are the same.
A process that maps a file or is forked later changes them with its first write.
"""

import os
import re
import time

from hutch.jail.jail_processes import members
from hutch.jail.limits.shared_memory_mappings import read_mappings
from hutch.system.lazy_dataclass import dataclass

MAX_CPU_S = 0.25
SHARED = re.compile(rb"^\w+-\w+ ..[-x]s \w+ \w+:\w+ ([1-9]\d*) +(.*)$", re.MULTILINE)
DELETED = b" (deleted)"
LINE_END = (b"\\012", b"\n")  # the kernel escapes only this


@dataclass(frozen=True, slots=True)
class MappedFiles:
    """Files that are mapped."""

    inodes: frozenset[int] = frozenset()
    names: frozenset[str] = frozenset()  # without their directories; an overlay has inodes of its own

    def may_include(self, inode: int, name: str) -> bool:
        return inode in self.inodes or name in self.names


NONE_MAPPED = MappedFiles()


def find_mapped_files(warden: int) -> MappedFiles | None:
    """All mapped files of a jail; None if that cannot be found out. Blocks."""
    found: set[tuple[bytes, bytes]] = set()
    cpu_deadline = time.thread_time() + MAX_CPU_S
    for member in members(warden):
        if member.trusted:
            continue
        for thread in member.threads:  # the first one that still has its memory
            try:
                parts = list(read_mappings(f"/proc/{member.pid}/task/{thread}"))
            except (FileNotFoundError, ProcessLookupError):
                continue
            except OSError:
                return None
            for part in parts:
                found.update(SHARED.findall(part))
            if time.thread_time() > cpu_deadline:
                return None
            if any(parts):
                break
    paths = (path.removesuffix(DELETED).replace(*LINE_END) for _, path in found)
    return MappedFiles(
        frozenset(int(inode) for inode, _ in found),
        frozenset(os.fsdecode(path.rpartition(b"/")[2]) for path in paths),
    )
