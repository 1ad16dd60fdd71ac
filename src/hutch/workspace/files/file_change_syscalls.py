"""The system calls of a file change, one method each, so that tests can make any of them fail.

Every path is a name in an open directory. No link is followed.
"""

import ctypes
import hashlib
import os

from hutch.snapshots.confined_directory import remove_entry
from hutch.workspace.files.directory_move_by_copy import copy_subtree, restore_missing, signature

RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
BUFFER_BYTES = 1 << 17

_libc = ctypes.CDLL(None, use_errno=True)


class Syscalls:
    """Every method raises OSError if the kernel refuses."""

    def stat(self, fd: int, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=fd, follow_symlinks=False)

    def read_link(self, fd: int, name: str) -> str:
        return os.readlink(name, dir_fd=fd)

    def digest(self, fd: int, name: str) -> str:
        file = os.open(name, READ, dir_fd=fd)
        try:
            return hash_descriptor(file)
        finally:
            os.close(file)

    def signature(self, fd: int, name: str) -> str:
        return signature(fd, name)

    def copy_subtree(self, fd: int, name: str, to_fd: int, to_name: str) -> list[str]:
        """Copy a whole tree; returns the paths that cannot be copied."""
        return copy_subtree(fd, name, to_fd, to_name)

    def restore_missing(self, fd: int, name: str, to_fd: int, to_name: str) -> None:
        """Restore entries of a tree from its copy."""
        restore_missing(fd, name, to_fd, to_name)

    def make_file(self, fd: int, name: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, 0o600, dir_fd=fd)

    def make_directory(self, fd: int, name: str, mode: int) -> None:
        os.mkdir(name, mode, dir_fd=fd)

    def write(self, fd: int, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]

    def set_owner(self, fd: int, owner: tuple[int, int]) -> None:
        """Set the owner. Only root can; other users already own it."""
        if os.geteuid() == 0:
            os.fchown(fd, *owner)

    def set_mode(self, fd: int, mode: int) -> None:
        os.fchmod(fd, mode)

    def set_times(self, fd: int, times_ns: tuple[int, int]) -> None:
        os.utime(f"/proc/self/fd/{fd}", ns=times_ns)  # works even without permission to open it

    def sync(self, fd: int) -> None:
        os.fsync(fd)

    def rename(self, fd: int, name: str, to_fd: int, to_name: str) -> None:
        """Rename without replacing anything."""
        self._rename(fd, name, to_fd, to_name, RENAME_NOREPLACE)

    def exchange(self, fd: int, name: str, to_fd: int, to_name: str) -> None:
        """Exchange two existing names atomically."""
        self._rename(fd, name, to_fd, to_name, RENAME_EXCHANGE)

    def unlink(self, fd: int, name: str) -> None:
        os.unlink(name, dir_fd=fd)

    def remove_directory(self, fd: int, name: str) -> None:
        os.rmdir(name, dir_fd=fd)

    def remove(self, fd: int, name: str) -> None:
        """Remove a whole tree."""
        remove_entry(fd, name)

    @staticmethod
    def _rename(fd: int, name: str, to_fd: int, to_name: str, flags: int) -> None:
        if _libc.renameat2(fd, os.fsencode(name), to_fd, os.fsencode(to_name), flags) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))


def hash_descriptor(fd: int) -> str:
    """The hash of an open file's content."""
    found, at = hashlib.sha256(), 0
    buffer = memoryview(bytearray(BUFFER_BYTES))  # reused: allocating costs more than reading
    while count := os.preadv(fd, [buffer], at):
        found.update(buffer[:count])
        at += count
    return found.hexdigest()
