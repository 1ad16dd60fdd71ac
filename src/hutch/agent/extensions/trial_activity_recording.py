"""Records what programs in a jail do: the files they read and change, the hosts they ask for, the processes.

The kernel reports the files (inotify), seen from outside, so nothing inside can hide one in a watched
directory. Processes are found by looking often: one that lives for a few milliseconds can be missed.
"""

import asyncio
import contextlib
import ctypes
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from hutch.jail.egress import EgressAttempt
from hutch.jail.jail_processes import members, read
from hutch.jail.policy import HOME, WORKSPACE
from hutch.jail.running_jail import Jailed
from hutch.system.terminal_safe_text import one_line
from hutch.workspace.files.change_watcher import (
    EVENT,
    IN_CREATE,
    IN_DELETE,
    IN_MODIFY,
    IN_MOVED_FROM,
    IN_MOVED_TO,
    IN_ONLYDIR,
    IN_Q_OVERFLOW,
)

IN_ACCESS, IN_OPEN, IN_ISDIR = 0x1, 0x20, 0x40000000
WRITES = IN_MODIFY | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO
MASK = IN_ACCESS | IN_OPEN | WRITES | IN_ONLYDIR
WRITABLE = (WORKSPACE, HOME, "/tmp")
MAX_WATCHES = 4096
MAX_FILES = 500  # of each list
MAX_HOSTS = 200
MAX_PROCESSES = 200
MAX_COMMAND_CHARS = 300
READ_BYTES = 256 * 1024
POLL_INTERVAL_S = 0.005

_libc = ctypes.CDLL(None, use_errno=True)


class JailActivity:
    """The activity that was seen so far."""

    def __init__(self) -> None:
        self._read: dict[str, None] = {}
        self._written: dict[str, None] = {}
        self._hosts: dict[str, bool] = {}
        self._processes: dict[tuple[int, str], str] = {}
        self._paths: dict[int, str] = {}
        self._unseen: set[str] = set()
        self._root = ""

    def note_attempt(self, attempt: EgressAttempt) -> None:
        """Take a report of the jail's proxy."""
        host = f"{one_line(attempt.host, 255)}:{attempt.port}" if attempt.host else "(unreadable request)"
        if host in self._hosts or len(self._hosts) < MAX_HOSTS:
            self._hosts[host] = attempt.allowed and self._hosts.get(host, True)

    @asynccontextmanager
    async def record(self, jail: Jailed, paths: Sequence[str]) -> AsyncIterator[None]:
        """Record the activity in a jail, and in the directories that it sees beside its own."""
        self._root = f"/proc/{jail.warden_pid}/root"
        loop = asyncio.get_running_loop()
        fd: int = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if fd < 0:
            self._unseen.add("all files: the machine has no inotify instance left")
        else:
            await asyncio.to_thread(self._watch_all, fd, (*WRITABLE, *paths))
            loop.add_reader(fd, self._take, fd)
        polling = asyncio.create_task(self._poll(jail.warden_pid))
        try:
            yield
        finally:
            polling.cancel()
            if fd >= 0:
                self._take(fd)
                loop.remove_reader(fd)
                os.close(fd)

    def to_json(self, clean: Callable[[str], str] = str) -> dict[str, Any]:
        """The record, as people are shown it; `clean` removes secrets."""
        return {
            "files_read": sorted(set(self._read) - set(self._written)),
            "files_written": sorted(self._written),
            "hosts": [{"host": host, "allowed": allowed} for host, allowed in sorted(self._hosts.items())],
            "processes": [clean(each) for each in dict.fromkeys(self._processes.values())],
            "unseen": sorted(self._unseen),
        }

    def _watch_all(self, fd: int, tops: Iterable[str]) -> None:
        for top in tops:
            self._watch(fd, top)

    def _watch(self, fd: int, top: str) -> None:
        """Watch a directory of the jail, and those below it."""
        for directory, folders, _ in os.walk(f"{self._root}{top}"):
            shown = directory.removeprefix(self._root)
            if len(self._paths) >= MAX_WATCHES:
                self._unseen.add(f"files below {one_line(shown, 200)}: too many directories")
                folders.clear()
                continue
            watch = _libc.inotify_add_watch(fd, os.fsencode(directory), MASK)
            if watch < 0:
                self._unseen.add(f"files in {one_line(shown, 200)}: {os.strerror(ctypes.get_errno())}")
            else:
                self._paths[watch] = shown

    def _take(self, fd: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                self._note_all(fd, os.read(fd, READ_BYTES))

    def _note_all(self, fd: int, data: bytes) -> None:
        at = 0
        while at < len(data):
            watch, mask, _, length = EVENT.unpack_from(data, at)
            name = data[at + EVENT.size : at + EVENT.size + length].rstrip(b"\0")
            at += EVENT.size + length
            if mask & IN_Q_OVERFLOW:
                self._unseen.add("some files: there were too many at once")
                continue
            directory = self._paths.get(watch)
            if directory is None or not name:
                continue
            path = f"{directory}/{os.fsdecode(name)}"
            if mask & IN_ISDIR:
                if mask & (IN_CREATE | IN_MOVED_TO):
                    self._watch(fd, path)
                continue
            files = self._written if mask & WRITES else self._read
            if len(files) < MAX_FILES:
                files[one_line(path, 1000)] = None

    async def _poll(self, warden: int) -> None:
        while True:
            for member in members(warden):
                if not member.trusted and len(self._processes) < MAX_PROCESSES:
                    command = read(f"/proc/{member.pid}/cmdline").rstrip(b"\0").replace(b"\0", b" ")
                    if command:
                        shown = one_line(command.decode(errors="replace"), MAX_COMMAND_CHARS)
                        self._processes[member.pid, shown] = shown
            await asyncio.sleep(POLL_INTERVAL_S)
