"""Writes entries and their hashes into the stream of a backup.

A small file is read whole, again if it changed meanwhile. A large one is copied as it is read; if
it changes or becomes shorter, the backup says so. The holes of a sparse file are not read.
"""

import errno
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import IO, Protocol

from hutch.flows.backups.backup_format import file_line, may_be_hard_link, may_be_special
from hutch.flows.backups.directory_walk import Found
from hutch.flows.backups.tar_entries import (
    BLOCK,
    END,
    MAX_SPARSE_PARTS,
    Entry,
    Kind,
    entry_header,
    padding,
    sparse_map,
)

CHUNK_BYTES = 1 << 20
SMALL_BYTES = 4 << 20  # files up to this size are read whole
MAX_ATTEMPTS = 3
GZIP, LEVEL = 31, 3  # zlib's name for the format, and a level that is fast enough for whole disks
OVERLAY, USER = "trusted.overlay.", "user."


class Sink(Protocol):
    """Takes the bytes of a backup."""

    def write(self, data: bytes) -> None: ...

    def finish(self) -> None: ...


class PlainSink:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.written = 0

    def write(self, data: bytes) -> None:
        self.written += len(data)
        self._file.write(data)

    def finish(self) -> None:
        self._file.flush()


class GzipSink(PlainSink):
    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self._packer = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP)

    def write(self, data: bytes) -> None:
        super().write(self._packer.compress(data))

    def finish(self) -> None:
        super().write(self._packer.flush())
        super().finish()


class EntryWriter:
    """Writes entries to a sink, and their lines to the list of files."""

    def __init__(self, sink: Sink, listing: IO[bytes], on_bytes: Callable[[int], None]) -> None:
        self._sink = sink
        self._listing = listing
        self._on_bytes = on_bytes  # gets the size of what was read, and may raise to stop
        self._links: dict[tuple[int, int], bytes] = {}  # where files with several names were written
        self.files = 0
        self.bytes = 0
        self.problems: list[tuple[bytes, str]] = []  # entries that are missing
        self.changed: list[bytes] = []

    def text(self, path: bytes, content: bytes, *, listed: bool = True) -> None:
        """Write a file of this content."""
        entry = Entry(path=path, kind="file", size=len(content))
        self._write(entry, iter((content,)), listed=listed)

    def spool(self, path: bytes, file: IO[bytes]) -> str:
        """Write the content of a file of our own that is not listed; returns its hash."""
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        chunks = iter(lambda: file.read(CHUNK_BYTES), b"")
        return self._write(Entry(path=path, kind="file", size=size), chunks, listed=False)

    def end(self) -> None:
        self._sink.write(END)
        self._sink.finish()

    def add(self, found: Found) -> None:
        """Write an entry of a directory."""
        mode = found.stat.st_mode
        kind = _kind(found)
        if kind is None or (kind not in ("file", "directory") and not may_be_special(found.path)):
            self.problems.append((found.path, _description(mode)))
        elif kind == "file":
            self.file(found)
        else:
            target = os.readlink(found.name, dir_fd=found.parent) if kind == "link" else b""
            attributes = self._directory_attributes(found) if kind == "directory" else {}
            self._write(_entry(found, kind, target=target, attributes=attributes), iter(()))

    def file(self, found: Found) -> None:
        """Write a regular file, or a link to the first of its names."""
        key = (found.stat.st_dev, found.stat.st_ino)
        if first := self._links.get(key):
            self._write(_entry(found, "hard link", target=first), iter(()))
            return
        if found.stat.st_nlink > 1 and may_be_hard_link(found.path):
            self._links[key] = found.path
        if found.stat.st_size <= SMALL_BYTES and not _is_sparse(found.stat):
            self._small(found)
        else:
            self._large(found)

    def _small(self, found: Found) -> None:
        before = found.stat
        for attempt in range(1, MAX_ATTEMPTS + 1):
            data = b"".join(_chunks(found.fd, [(0, before.st_size)]))
            after = os.fstat(found.fd)
            if _state(after) == _state(before) and len(data) == before.st_size:
                break
            if attempt == MAX_ATTEMPTS or after.st_size > SMALL_BYTES:
                self.changed.append(found.path)
                break
            before = after
        entry = _entry(
            found._replace(stat=before),
            "file",
            size=len(data),
            attributes=self._attributes(found.path, found.fd),
        )
        self._write(entry, iter((data,)))

    def _large(self, found: Found) -> None:
        size, parts = found.stat.st_size, None
        if _is_sparse(found.stat) and (holes := _data_parts(found.fd, size)) is not None:
            parts = holes
        stored = [(0, size)] if parts is None else parts
        entry = _entry(
            found,
            "file",
            size=sum(length for _, length in stored),
            attributes=self._attributes(found.path, found.fd),
            parts=parts,
            real_size=size if parts is not None else 0,
        )
        self._write(entry, _chunks(found.fd, stored, filled=True))
        if _state(os.fstat(found.fd)) != _state(found.stat):
            self.changed.append(found.path)

    def _directory_attributes(self, found: Found) -> dict[str, bytes]:
        fd = os.open(found.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=found.parent)
        try:
            return self._attributes(found.path, f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)

    def _attributes(self, path: bytes, of: int | str) -> dict[str, bytes]:
        try:
            return _read_attributes(of)
        except OSError as error:
            self.problems.append((path, f"its extended attributes: {error.strerror}"))
            return {}

    def _write(self, entry: Entry, chunks: Iterator[bytes], *, listed: bool = True) -> str:
        self._sink.write(entry_header(entry))
        before = sparse_map(entry.parts) if entry.parts is not None else b""
        digest = sha256(before)
        self._sink.write(before)
        for chunk in chunks:
            digest.update(chunk)
            self._sink.write(chunk)
            self._on_bytes(len(chunk))
        self._sink.write(padding(entry.size))
        self._on_bytes(0)
        if listed:
            self.files += 1
            self.bytes += entry.size
            self._listing.write(file_line(entry, digest.hexdigest() if entry.kind == "file" else ""))
        return digest.hexdigest()


def _entry(found: Found, kind: Kind, **more: object) -> Entry:
    state = found.stat
    return Entry(
        path=found.path,
        kind=kind,
        mode=stat.S_IMODE(state.st_mode),
        uid=state.st_uid,
        gid=state.st_gid,
        mtime_ns=state.st_mtime_ns,
        **more,  # type: ignore[arg-type]
    )


def _kind(found: Found) -> Kind | None:
    kinds: dict[int, Kind] = {
        stat.S_IFREG: "file",
        stat.S_IFDIR: "directory",
        stat.S_IFLNK: "link",
        stat.S_IFIFO: "pipe",
    }
    if stat.S_ISCHR(found.stat.st_mode) and found.stat.st_rdev == 0:
        return "whiteout"
    return kinds.get(stat.S_IFMT(found.stat.st_mode))


def _description(mode: int) -> str:
    if stat.S_ISSOCK(mode):
        return "a socket, which has no meaning without its process"
    return "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "a link or pipe outside a workspace"


def _state(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _is_sparse(found: os.stat_result) -> bool:
    return found.st_blocks * BLOCK < found.st_size and found.st_size > BLOCK


def _data_parts(fd: int, size: int) -> list[tuple[int, int]] | None:
    """The parts of a file that are not holes; None if there are too many, or no holes."""
    parts, place = [], 0
    while place < size:
        try:
            start = os.lseek(fd, place, os.SEEK_DATA)
        except OSError:  # only a hole is left
            break
        place = min(os.lseek(fd, start, os.SEEK_HOLE), size)
        parts.append((start, place - start))
        if len(parts) > MAX_SPARSE_PARTS:
            return None
    return None if parts == [(0, size)] else parts


def _chunks(fd: int, parts: list[tuple[int, int]], *, filled: bool = False) -> Iterator[bytes]:
    """The content of these parts; with `filled`, zeros for what is no longer there."""
    for offset, length in parts:
        place, end = offset, offset + length
        while place < end:
            chunk = os.pread(fd, min(CHUNK_BYTES, end - place), place)
            if not chunk and not filled:
                return
            chunk = chunk or bytes(min(CHUNK_BYTES, end - place))
            place += len(chunk)
            yield chunk


def _read_attributes(of: int | str) -> dict[str, bytes]:
    """The attributes of users and overlayfs. Those that give rights are not copied."""
    try:
        names = os.listxattr(of)
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:  # the file system has none
            return {}
        raise
    return {name: os.getxattr(of, name) for name in names if name.startswith((USER, OVERLAY))}
