"""What commands change, told in batches while they run.

Directories are watched with inotify, each by a descriptor that nothing leads out
of: common libraries for this follow links, and a jail could make them watch the
whole host. Where the kernel gives no more watches, the tree is compared with how
it was every few seconds instead; and when more happened than was noted, that is
said, so that whoever listens can look at everything again.
"""

import asyncio
import contextlib
import ctypes
import errno
import os
import re
import struct
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hutch.domain.errors import HutchError
from hutch.snapshots.confined_directory import Directory
from hutch.workspace.files.journal import STAGING_PREFIX
from hutch.workspace.files.listing import Entry, IsHidden, Walk

DEBOUNCE_S = 0.1
POLL_INTERVAL_S = 2.0
MAX_PATHS = 10_000  # in one batch
READ_BYTES = 64 * 1024
GIT = ".git"
STAGING = re.compile(re.escape(STAGING_PREFIX) + "[0-9a-f]{32}")

IN_MODIFY, IN_ATTRIB, IN_CLOSE_WRITE, IN_MOVED_FROM, IN_MOVED_TO = 0x2, 0x4, 0x8, 0x40, 0x80
IN_CREATE, IN_DELETE = 0x100, 0x200
IN_Q_OVERFLOW, IN_IGNORED, IN_ISDIR = 0x4000, 0x8000, 0x40000000
IN_ONLYDIR, IN_EXCL_UNLINK = 0x1000000, 0x4000000
MASK = (IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE) | (
    IN_ONLYDIR | IN_EXCL_UNLINK
)
EVENT = struct.Struct("iIII")

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Changed:
    """Paths that were made, changed or removed. With `rescan`, others may have been as well."""

    paths: tuple[str, ...]
    rescan: bool = False


@asynccontextmanager
async def watching(
    tree: Directory,
    *,
    is_hidden: IsHidden = lambda name: False,
    debounce_s: float = DEBOUNCE_S,
    poll_s: float = POLL_INTERVAL_S,
    max_watches: int | None = None,
) -> AsyncIterator[AsyncIterator[Changed]]:
    """Batches of what changes from now on, but for git's own directories and what `is_hidden` at the top."""
    watcher = Watcher(tree, is_hidden, max_watches)
    try:
        await asyncio.to_thread(watcher.start)
        batches = _batches(watcher, debounce_s, poll_s)
        try:
            yield batches
        finally:
            await batches.aclose()
    finally:
        await asyncio.to_thread(watcher.close)


async def _batches(watcher: "Watcher", debounce_s: float, poll_s: float) -> AsyncGenerator[Changed, None]:
    pause_s = poll_s
    while True:
        if watcher.is_complete:
            await _readable(watcher.fd)
            await asyncio.sleep(debounce_s)
        else:
            await asyncio.sleep(pause_s)
        began = time.monotonic()
        changed = await asyncio.to_thread(watcher.collect)
        pause_s = max(poll_s, 10 * (time.monotonic() - began))  # a large tree must not keep a core busy
        if changed.paths or changed.rescan:
            yield changed


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(fd, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(fd)


class Watcher:
    """Holds a few descriptors; its methods block."""

    def __init__(self, tree: Directory, is_hidden: IsHidden, max_watches: int | None = None) -> None:
        self.is_complete = True  # every directory is watched; else the tree is compared now and then
        self._tree = Directory(os.dup(tree.fd))
        self._hides = is_hidden
        self._most = max_watches
        self._paths: dict[int, str] = {}
        self._seen: dict[str, Entry] = {}
        self._lock = threading.Lock()
        self.fd: int = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)

    def start(self) -> None:
        """Changes count from when this returns."""
        with self._lock:
            if self.fd < 0:
                self._give_up()
            else:
                self._add("")

    def close(self) -> None:
        """Waits for a call that is going on."""
        with self._lock:
            if self.fd >= 0:
                os.close(self.fd)
                self.fd = -1
            self._tree.close()

    def collect(self) -> Changed:
        """All that changed since the last time, as far as it was noted."""
        with self._lock:
            if self._tree.fd < 0:  # closed meanwhile
                return Changed(())
            if not self.is_complete:
                return self._compare()
            found: set[str] = set()
            overflowed = False
            for wd, mask, name in self._events():
                if mask & IN_Q_OVERFLOW:
                    overflowed = True
                elif mask & IN_IGNORED:
                    self._paths.pop(wd, None)
                elif wd in self._paths and name:
                    path = f"{self._paths[wd]}/{name}" if self._paths[wd] else name
                    if self._is_noise(path, name):
                        continue
                    found.add(path)
                    if mask & IN_ISDIR and mask & (IN_CREATE | IN_MOVED_TO):
                        found |= self._add(path)
            if overflowed:
                self._add("")
            if overflowed or not self.is_complete or len(found) > MAX_PATHS:
                return Changed((), rescan=True)
            return Changed(tuple(sorted(found)))

    def _is_noise(self, path: str, name: str) -> bool:
        if name == GIT:
            return True
        is_staging = path == name and STAGING.fullmatch(name) is not None
        return is_staging and (self._hides(name) or not self._tree.exists(name))

    def _events(self) -> Iterator[tuple[int, int, str]]:
        for _ in range(MAX_PATHS):  # who writes faster than we read is told in the next batch
            if self.fd < 0:
                return
            try:
                data = os.read(self.fd, READ_BYTES)
            except BlockingIOError:
                return
            at = 0
            while at < len(data):
                wd, mask, _, length = EVENT.unpack_from(data, at)
                at += EVENT.size + length
                yield wd, mask, os.fsdecode(data[at - length : at].rstrip(b"\0"))

    def _add(self, path: str) -> set[str]:
        """Watch a directory and those below; returns what is in there, as it may be new."""
        found: set[str] = set()
        todo = [path]
        while todo and self.is_complete:
            here = todo.pop()
            with contextlib.suppress(HutchError, OSError):  # gone by now, or not ours to look into
                fd = self._tree.open(here, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    self._watch(fd, here)
                    with os.scandir(fd) as entries:
                        for entry in entries:
                            below = f"{here}/{entry.name}" if here else entry.name
                            if self._is_noise(below, entry.name):
                                continue
                            if len(found) <= MAX_PATHS:
                                found.add(below)
                            if entry.is_dir(follow_symlinks=False):
                                todo.append(below)
                finally:
                    os.close(fd)
        return found

    def _watch(self, fd: int, path: str) -> None:
        wd = -1
        if self._most is None or len(self._paths) < self._most:
            wd = _libc.inotify_add_watch(self.fd, f"/proc/self/fd/{fd}".encode(), MASK)
            if wd < 0 and ctypes.get_errno() not in (errno.ENOSPC, errno.ENOMEM):
                return
        if wd < 0:
            self._give_up()
        else:
            self._paths[wd] = path

    def _give_up(self) -> None:
        """The kernel gives no (more) watches: from now on the tree is compared with how it was."""
        self.is_complete = False
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        self._paths.clear()
        self._seen = self._scan()

    def _scan(self) -> dict[str, Entry]:
        entries = Walk(self._tree, "", is_hidden=self._hides).entries()
        return {entry.path: entry for entry in entries if not f"/{entry.path}/".count(f"/{GIT}/")}

    def _compare(self) -> Changed:
        seen = self._scan()
        paths = [path for path in self._seen.keys() | seen.keys() if self._seen.get(path) != seen.get(path)]
        self._seen = seen
        return Changed((), rescan=True) if len(paths) > MAX_PATHS else Changed(tuple(sorted(paths)))
