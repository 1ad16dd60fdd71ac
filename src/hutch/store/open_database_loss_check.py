"""Checks that the open database files are still the ones at their paths, and complete.

A process can still write to a file that was deleted, moved or truncated, but that data is lost when
the process ends. So the files are checked before a write is acknowledged: a few calls of stat, and
36 bytes of the write-ahead file.

Only the write-ahead file is opened here. SQLite holds its locks on the two others, and closing any
descriptor of those would release the locks.
"""

import os
from contextlib import suppress
from pathlib import Path
from threading import Lock

from hutch.domain.errors import DataGone
from hutch.system.lazy_dataclass import dataclass

WAL_MAGICS = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
WAL_HEADER_BYTES, FRAME_HEADER_BYTES = 32, 24


@dataclass(slots=True)
class _Wal:
    """The write-ahead file at the last check."""

    fd: int
    size: int = 0
    salts: bytes = b""  # changes each time that SQLite restarts at the beginning of the file


class DatabaseFiles:
    """The database at `path`. Create this object after SQLite has opened the database."""

    def __init__(self, path: Path, max_idle_wal_bytes: int) -> None:
        self._path = path
        self._max_idle_wal_bytes = max_idle_wal_bytes
        self._files = [Path(f"{path}{ending}") for ending in ("", "-wal", "-shm")]
        self._known = [_identify(file) for file in self._files]
        self._size = 0
        self._wal: _Wal | None = None
        self._gone: DataGone | None = None
        self._lock = Lock()
        self.is_wal_in_doubt = False  # it was emptied, by SQLite or from outside: the next write shows which

    def check(self) -> None:
        """Raise `DataGone` when the files are no longer there or whole; from then on, each time."""
        with self._lock:
            if self._gone is None and (problem := self._inspect()):
                self._mark(problem)
                self._gone = DataGone(
                    f"{problem} while Hutch was using it, so Hutch stopped writing. Save a copy of "
                    f"{self._path.parent}, restore what is missing or a backup, and start Hutch again."
                )
        if self._gone is not None:
            raise self._gone

    def _mark(self, problem: str) -> None:
        """Create a file for the next start, which cannot detect the truncation."""
        if self._path.exists():
            with suppress(OSError):  # the directory is gone or full: the server's log reports it
                damage_mark(self._path).write_text(f"{problem}.\n")

    def clear_damage_mark(self) -> None:
        """Remove the mark, because nothing is missing after all."""
        damage_mark(self._path).unlink(missing_ok=True)

    def fail(self, problem: Exception) -> None:
        """Refuse all further writes, because SQLite reports damage."""
        with self._lock:
            self._gone = self._gone or DataGone(str(problem))

    @property
    def can_save_wal(self) -> bool:
        """True if only the name of the write-ahead file is gone, and no other file has replaced it."""
        found = [_identify(file) for file in self._files]
        is_same = [a is not None and a[:2] == (b and b[:2]) for a, b in zip(self._known, found, strict=True)]
        wal = found[1]
        return is_same == [True, False, True] and (wal is None or wal[2] == 0)

    def close(self) -> None:
        with self._lock:
            if self._wal is not None:
                os.close(self._wal.fd)
                self._wal = None

    def _inspect(self) -> str:
        """A description of the problem, or an empty string."""
        for index, file in enumerate(self._files):
            found, known = _identify(file), self._known[index]
            if known is None and index > 0:  # SQLite had not created it yet
                self._known[index] = known = found
            if (found and found[:2]) != (known and known[:2]) or (found is None and index == 0):
                happened = "vanished" if found is None else "was replaced by another file"
                return f"The database file {file} {happened}"
            if found is None:
                continue
            if index == 0:
                if found[2] < self._size:
                    return f"The database file {file} was cut from {self._size:,} to {found[2]:,} bytes"
                self._size = found[2]
            elif index == 1 and self._is_wal_damaged():
                return f"The database file {file} was cut or overwritten"
        return ""

    def _is_wal_damaged(self) -> bool:
        """True if frames are missing at its end or in its middle. Other processes may be writing."""
        wal = self._wal
        if wal is None:
            wal = self._wal = _Wal(os.open(self._files[1], os.O_RDONLY | os.O_CLOEXEC))
        header = os.pread(wal.fd, WAL_HEADER_BYTES, 0)
        if not header:  # SQLite empties it when all of it is in the database
            self.is_wal_in_doubt = self.is_wal_in_doubt or wal.size > 0
            wal.size, wal.salts = 0, b""
            return False
        if header[:4] not in WAL_MAGICS:
            return True
        self.is_wal_in_doubt = False
        salts, size = header[16:24], os.fstat(wal.fd).st_size  # in this order: new salts come before a cut
        if salts == wal.salts:
            frame_bytes = FRAME_HEADER_BYTES + int.from_bytes(header[8:12])
            is_cut = size < min(wal.size, self._max_idle_wal_bytes)  # SQLite itself may cut it to that
            is_whole = wal.size > WAL_HEADER_BYTES and (wal.size - WAL_HEADER_BYTES) % frame_bytes == 0
            # A frame begins with the number of a page, which is never 0: after a cut, zeros fill the gap.
            if is_cut or (is_whole and os.pread(wal.fd, 4, wal.size - frame_bytes) == bytes(4)):
                # SQLite may have emptied it since the header was read: then that is another one now.
                return os.pread(wal.fd, WAL_HEADER_BYTES, 0) == header or self._is_wal_damaged()
        wal.size, wal.salts = size, salts
        return False


def damage_mark(path: Path) -> Path:
    """The file that marks a database of which a part may be missing."""
    return Path(f"{path}.damaged")


def _identify(path: Path) -> tuple[int, int, int] | None:
    """The device, inode and size of a file."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino, found.st_size
