"""Signals that files of a workspace have changed; a scan then finds which.

Directories are watched with inotify, each through a descriptor, so that a link cannot lead out of the
workspace. Each watch reports once and is gone, until `arm` watches the directory again: so a burst of
changes costs the processes that make them next to nothing. Changes through shared memory (mmap) are not
reported by the kernel, so a scan after each command is needed anyway.
"""

import contextlib
import ctypes
import errno
import os
import struct
import threading
from collections.abc import Sequence

from hutch.domain.errors import HutchError
from hutch.snapshots.confined_directory import Directory

MAX_WATCHES = 8192  # of one workspace: the kernel limits those of all workspaces together
READ_BYTES = 64 * 1024
GIT = ".git"

IN_MODIFY, IN_ATTRIB, IN_MOVED_FROM, IN_MOVED_TO = 0x2, 0x4, 0x40, 0x80
IN_CREATE, IN_DELETE = 0x100, 0x200
IN_Q_OVERFLOW, IN_IGNORED = 0x4000, 0x8000
IN_ONLYDIR, IN_EXCL_UNLINK, IN_ONESHOT = 0x1000000, 0x4000000, 0x80000000
CHANGES = IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE
MASK = CHANGES | IN_ONLYDIR | IN_EXCL_UNLINK | IN_ONESHOT
EVENT = struct.Struct("iIII")
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW

_libc = ctypes.CDLL(None, use_errno=True)


class ChangeWatcher:
    """Watches the directories of a tree, but for git's own and the `skipped`. Its descriptor is readable
    after a change.

    `arm` blocks, and may run in a thread; `close` waits for it.
    """

    def __init__(
        self, tree: Directory, *, max_watches: int = MAX_WATCHES, skipped: Sequence[str] = ()
    ) -> None:
        self.is_complete = True  # every directory is watched; otherwise changes may go unnoticed
        self._tree = Directory(os.dup(tree.fd))
        self._max_watches = max_watches
        self._skipped = frozenset(skipped)
        self._paths: dict[int, str] = {}  # of armed directories, by watch
        self._armed: set[str] = set()
        self._lock = threading.Lock()
        self.fd: int = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            self.is_complete = False

    def arm(self) -> None:
        """Watch every directory that is new or has reported a change. Changes count from its return on."""
        with self._lock:
            if self.fd < 0:
                return
            fired = self._take_fired() if self._armed else {""}
            for path in sorted(fired):
                if self.is_complete:
                    self._add(path)

    def close(self) -> None:
        with self._lock:
            if self.fd >= 0:
                os.close(self.fd)
                self.fd = -1
            self._tree.close()

    def _take_fired(self) -> set[str]:
        """The directories that have reported a change since they were armed."""
        fired: set[str] = set()
        while True:
            try:
                data = os.read(self.fd, READ_BYTES)
            except BlockingIOError:
                break
            at = 0
            while at < len(data):
                wd, mask, _, length = EVENT.unpack_from(data, at)
                at += EVENT.size + length
                if mask & IN_Q_OVERFLOW:  # more directories than the queue holds: look at all again
                    self._armed.clear()
                    fired.add("")
                elif (path := self._paths.get(wd)) is not None:
                    fired.add(path)
                    if mask & IN_IGNORED:  # the watch is gone
                        del self._paths[wd]
        self._armed -= fired
        return fired

    def _add(self, path: str) -> None:
        """Watch a directory, and those below it that are not watched yet."""
        waiting = [path]
        while waiting and self.is_complete:
            here = waiting.pop()
            if here in self._armed:
                continue
            with contextlib.suppress(HutchError, OSError):  # it was removed, or cannot be read
                fd = self._tree.open(here, DIRECTORY)
                try:
                    self._watch(fd, here)
                    with os.scandir(fd) as entries:
                        below = [
                            f"{here}/{entry.name}" if here else entry.name
                            for entry in entries
                            if entry.is_dir(follow_symlinks=False) and entry.name != GIT
                        ]
                    waiting += [path for path in below if path not in self._skipped]
                finally:
                    os.close(fd)

    def _watch(self, fd: int, path: str) -> None:
        wd = -1
        if len(self._armed) < self._max_watches:
            wd = _libc.inotify_add_watch(self.fd, f"/proc/self/fd/{fd}".encode(), MASK)
            if wd < 0 and ctypes.get_errno() not in (errno.ENOSPC, errno.ENOMEM):
                return
        if wd < 0:
            self.is_complete = False
        else:
            self._paths[wd] = path
            self._armed.add(path)
