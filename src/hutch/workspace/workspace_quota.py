"""The quota of a workspace, in bytes and files.

It covers what the workspace adds to the disk: the whole tree of a copy, or the changes
of an overlay. In memory the kernel enforces it. On disk the jail's watcher enforces it
for commands, and the host checks it before each write. The tree is measured only when
the result could matter.
"""

import os
import time
from dataclasses import replace

from hutch.domain.byte_size_formatting import readable_size
from hutch.domain.errors import LimitReached
from hutch.jail.interface import LimitHit
from hutch.jail.limits.disk_growth import measure
from hutch.jail.policy import Policy
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.lifecycle.workspace_mount import WorkspaceMount
from hutch.workspace.lifecycle.workspace_record_and_directories import Record

MAX_AGE_S = 5.0  # of a measurement, while there is enough space
PLENTY = 2 / 3


@dataclass(frozen=True, slots=True)
class Usage:
    """The disk usage of a workspace."""

    bytes: int
    files: int


class Quota:
    """The quota and the usage of one open workspace."""

    def __init__(self, opened: WorkspaceMount) -> None:
        self.record = opened.record
        self._directory = opened.upper or opened.copy or opened.directory
        self._use = Usage(0, 0)
        self._measured = 0.0  # never
        self._granted = Usage(0, 0)  # since the measurement
        self._taken = Usage(0, 0)  # of the whole file system, at the measurement

    def measure_usage(self) -> Usage:
        """Measure the usage. Walks the tree; blocks."""
        self._taken = self._file_system()
        if self.record.storage == "memory":
            self._use = self._taken
        else:
            fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._directory.fd)
            try:
                found = measure(fd)
            finally:
                os.close(fd)
            self._use = Usage(found.bytes, found.files)
        self._measured, self._granted = time.monotonic(), Usage(0, 0)
        return self._use

    def check_space(self, *, more_bytes: int = 0, more_files: int = 0) -> None:
        """Refuse a write that would exceed the quota. Blocks the thread."""
        if self._is_stale() or not self._fits(more_bytes, more_files, PLENTY):
            self.measure_usage()
        if not self._fits(more_bytes, more_files, 1.0):
            raise quota_error(self.record, Usage(self._use.bytes + more_bytes, self._use.files + more_files))
        self._granted = Usage(self._granted.bytes + more_bytes, self._granted.files + more_files)

    def cap_policy(self, policy: Policy) -> Policy:
        """The policy limited to the remaining quota. Walks the tree; blocks."""
        used, limits = self.measure_usage(), policy.limits
        free_bytes = max(0, self.record.quota_bytes - used.bytes)
        free_files = max(0, self.record.quota_files - used.files)
        return replace(
            policy,
            limits=replace(
                limits,
                workspace_growth_bytes=min(limits.workspace_growth_bytes, free_bytes),
                workspace_growth_files=min(limits.workspace_growth_files, free_files),
            ),
        )

    def explain(self, hit: LimitHit, policy: Policy) -> LimitReached:
        """The error for a limit that stopped a command. Walks the tree; blocks."""
        before, capped = policy.limits, self.cap_policy(policy).limits
        is_ours = {
            "workspace_growth_bytes": capped.workspace_growth_bytes < before.workspace_growth_bytes,
            "workspace_growth_files": capped.workspace_growth_files < before.workspace_growth_files,
        }
        return quota_error(self.record, self._use, hit.limit) if is_ours.get(hit.limit) else hit.error()

    def _is_stale(self) -> bool:
        """True if enough was written to this file system since the measurement to matter."""
        if time.monotonic() - self._measured > MAX_AGE_S:
            return True
        now, then = self._file_system(), self._taken
        free_bytes = self.record.quota_bytes - self._use.bytes
        free_files = self.record.quota_files - self._use.files
        return 4 * (now.bytes - then.bytes) > free_bytes or 4 * (now.files - then.files) > free_files

    def _file_system(self) -> Usage:
        about = os.fstatvfs(self._directory.fd)
        return Usage((about.f_blocks - about.f_bfree) * about.f_frsize, about.f_files - about.f_ffree)

    def _fits(self, more_bytes: int, more_files: int, share: float) -> bool:
        used, granted = self._use, self._granted
        total, files = used.bytes + granted.bytes + more_bytes, used.files + granted.files + more_files
        return total <= self.record.quota_bytes * share and files <= self.record.quota_files * share


def quota_error(record: Record, usage: Usage, hit: str = "") -> LimitReached:
    """The error with the usage, the limit and a hint."""
    if usage.bytes > record.quota_bytes or (
        hit == "workspace_growth_bytes" and usage.files <= record.quota_files
    ):
        return LimitReached(
            f"Workspace is {readable_size(usage.bytes)}, at or over its "
            f"{readable_size(record.quota_bytes)} quota. Delete files or raise workspace.quota_bytes.",
            limit="workspace.quota_bytes",
        )
    return LimitReached(
        f"Workspace has {usage.files} files, at or over its quota of {record.quota_files}. "
        "Delete files or raise workspace.quota_files.",
        limit="workspace.quota_files",
    )
