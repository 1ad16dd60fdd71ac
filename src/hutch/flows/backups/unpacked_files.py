"""Creates the files of a backup below one directory, and never anywhere else.

A backup may come from somewhere else. Each path is walked from descriptor to descriptor without
following a link, each entry must be new, and links are made only where workspaces have them. Set-id
bits, devices and attributes that give rights are refused or dropped.
"""

import os
import stat
from collections.abc import Iterator

from hutch.domain.errors import Unavailable
from hutch.domain.one_line_text import echo
from hutch.flows.backups.backup_format import (
    DATA,
    SETTINGS,
    About,
    may_be_hard_link,
    may_be_special,
)
from hutch.flows.backups.directory_walk import Descent
from hutch.flows.backups.entry_writer import OVERLAY, USER
from hutch.flows.backups.tar_entries import BadBackup, Entry

CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
OVERLAY_AS_USER = "user.overlay."
PRIVATE, FILE_MODES, DIRECTORY_MODES = 0o700, 0o777, 0o1777
ROOT = 0


class UnpackedFiles:
    """The files below an open directory, as they are unpacked."""

    def __init__(self, root: int, about: About) -> None:
        self._root = root
        self._about = about
        self._descent = Descent(root)
        self._directories: list[Entry] = []  # their modes and times are set at the end

    def add(self, entry: Entry, chunks: Iterator[bytes]) -> None:
        """Create an entry."""
        *above, name = entry.path.split(b"/")
        try:
            parent = self._descent.at(tuple(above))
            self._create(entry, parent, name, chunks)
        except (FileNotFoundError, FileExistsError, NotADirectoryError) as error:
            raise BadBackup(
                f"The backup has {_shown(entry)}, which does not fit: {error.strerror}."
            ) from None

    def finish(self) -> None:
        """Give the directories their modes and times, the innermost first."""
        for entry in reversed(self._directories):
            fd = self._descent.at(tuple(entry.path.split(b"/")))
            os.fchmod(fd, entry.mode & DIRECTORY_MODES)
            os.utime(fd, ns=(entry.mtime_ns, entry.mtime_ns))

    def close(self) -> None:
        self._descent.close()

    def _create(self, entry: Entry, parent: int, name: bytes, chunks: Iterator[bytes]) -> None:
        if entry.kind == "file":
            self._file(entry, parent, name, chunks)
            return
        if entry.kind == "directory":
            os.mkdir(name, PRIVATE, dir_fd=parent)
            self._directories.append(entry)
        elif entry.kind == "hard link":
            self._hard_link(entry, parent, name)
            return
        elif not may_be_special(entry.path):
            raise BadBackup(f"The backup has {_shown(entry)}, a {entry.kind} outside of the workspaces.")
        elif entry.kind == "link":
            os.symlink(entry.target, name, dir_fd=parent)
        elif entry.kind == "pipe":
            os.mkfifo(name, entry.mode & FILE_MODES, dir_fd=parent)
        else:
            os.mknod(name, stat.S_IFCHR, os.makedev(0, 0), dir_fd=parent)
        self._set_owner(entry, parent, name)
        if entry.kind == "directory":
            self._set_attributes(entry, self._descent.at(tuple(entry.path.split(b"/"))))
        else:
            os.utime(name, ns=(entry.mtime_ns, entry.mtime_ns), dir_fd=parent, follow_symlinks=False)

    def _file(self, entry: Entry, parent: int, name: bytes, chunks: Iterator[bytes]) -> None:
        fd = os.open(name, CREATE, 0o600, dir_fd=parent)
        try:
            if entry.parts is None:
                for chunk in chunks:
                    _write_all(fd, chunk)
            else:
                _write_parts(fd, entry, chunks)
            self._set_owner(entry, fd)
            self._set_attributes(entry, fd)
            os.fchmod(fd, entry.mode & FILE_MODES)
            os.utime(fd, ns=(entry.mtime_ns, entry.mtime_ns))
        finally:
            os.close(fd)

    def _hard_link(self, entry: Entry, parent: int, name: bytes) -> None:
        *above, source = entry.target.split(b"/")
        if not (may_be_hard_link(entry.path) and may_be_hard_link(entry.target)) or any(
            each in (b"", b".", b"..") for each in (*above, source)
        ):
            raise BadBackup(f"The backup has {_shown(entry)}, a link to a file that it may not share.")
        here = os.dup(parent)  # the descent moves on to the other directory
        try:
            there = self._descent.at(tuple(above))
            if not stat.S_ISREG(os.stat(source, dir_fd=there, follow_symlinks=False).st_mode):
                raise BadBackup(f"The backup has {_shown(entry)}, a link to something that is no file.")
            os.link(source, name, src_dir_fd=there, dst_dir_fd=here, follow_symlinks=False)
        finally:
            os.close(here)

    def _set_owner(self, entry: Entry, fd: int, name: bytes | None = None) -> None:
        """Root restores owners; what belonged to the installation's user becomes root's."""
        if os.geteuid() != ROOT:
            return
        own = (entry.uid == self._about.uid, self._about.uid != ROOT)
        uid, gid = (ROOT, ROOT) if any(own) else (entry.uid, entry.gid)
        if name is None:
            os.fchown(fd, uid, gid)
        else:
            os.chown(name, uid, gid, dir_fd=fd, follow_symlinks=False)

    def _set_attributes(self, entry: Entry, fd: int) -> None:
        """Set the attributes of users and overlayfs, which have other names for root."""
        was, now = (OVERLAY if uid == ROOT else OVERLAY_AS_USER for uid in (self._about.uid, os.geteuid()))
        for name, value in entry.attributes.items():
            if not name.startswith((USER, OVERLAY)):
                raise BadBackup(f"The backup has {_shown(entry)} with the attribute {echo(name, 80)}.")
            if was != now and not name.startswith(was) and name.startswith((OVERLAY, OVERLAY_AS_USER)):
                continue  # it meant nothing there, and would mean something here
            renamed = now + name.removeprefix(was) if name.startswith(was) else name
            try:
                os.setxattr(fd, renamed, value)
            except OSError as error:
                raise Unavailable(
                    f"The extended attribute {renamed} of {_shown(entry)} cannot be set here "
                    f"({error.strerror}). Restore to a file system such as ext4, xfs or btrfs."
                ) from None


def check_place(entry: Entry) -> None:
    """The two directories of a backup are directories."""
    if entry.path in (DATA, SETTINGS) and entry.kind != "directory":
        raise BadBackup(f"The backup has {_shown(entry)}, which is not a directory.")


def _write_parts(fd: int, entry: Entry, chunks: Iterator[bytes]) -> None:
    """Write the parts of a sparse file to their places."""
    assert entry.parts is not None
    end = 0
    for offset, length in entry.parts:
        if offset < end:
            raise BadBackup(f"The map of {_shown(entry)} in the backup is out of order.")
        end = offset + length
    if end > entry.real_size or sum(length for _, length in entry.parts) != entry.size:
        raise BadBackup(f"The map of {_shown(entry)} in the backup does not fit its content.")
    data = b""
    for offset, length in entry.parts:
        os.lseek(fd, offset, os.SEEK_SET)
        left = length
        while left:
            data = data or next(chunks)
            _write_all(fd, data[:left])
            data, left = data[left:], left - len(data[:left])
    for chunk in chunks:
        raise BadBackup(f"{_shown(entry)} in the backup has {len(chunk)} bytes too many.")
    os.ftruncate(fd, entry.real_size)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _shown(entry: Entry) -> str:
    return echo(entry.path.decode("utf-8", "backslashreplace"), 200)
