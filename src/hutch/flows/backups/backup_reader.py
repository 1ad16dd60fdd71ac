"""Reads a backup as a stream, and checks that it is whole: every hash, every list, the manifest.

The list of files that the backup contains is compared with one that is made while reading. So
nothing of it is held in memory, and a difference is named.
"""

import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from hutch.domain.errors import BadRequest, NotFound, Unavailable
from hutch.domain.one_line_text import echo
from hutch.flows.backups.backup_format import (
    ABOUT,
    DATA,
    FILES,
    LOGS,
    MANIFEST,
    MAX_JSON_BYTES,
    MAX_LINE_BYTES,
    SETTINGS,
    About,
    Manifest,
    blob_name,
    file_line,
    log_line,
    path_in,
)
from hutch.flows.backups.backup_writer import OnProgress, Progress
from hutch.flows.backups.entry_writer import GZIP
from hutch.flows.backups.tar_entries import BadBackup, Entry, TarReader, sparse_map
from hutch.store.database_copy import LogHead

CHUNK_BYTES = 1 << 20
MAX_NAME_BYTES = 255
GZIP_MAGIC = b"\x1f\x8b"


class Target(Protocol):
    """Takes the entries of a backup."""

    def begin(self, about: About) -> None:
        """Called once, before all entries. Raises if this backup cannot be restored here."""

    def add(self, entry: Entry, chunks: Iterator[bytes]) -> None:
        """Take an entry. Reads all chunks, or none."""


class Read(NamedTuple):
    """A backup whose hashes are those of its lists."""

    about: About
    manifest: Manifest


def read_backup(stream: Callable[[int], bytes], target: Target, on_progress: OnProgress) -> Read:
    """Read a backup to its end, and pass its entries to `target`. Blocks the thread."""
    reader = TarReader(stream)
    about = About.parse(_small(reader, ABOUT))
    target.begin(about)
    with tempfile.TemporaryFile() as listing:
        files, size, last = 0, 0, None
        while (entry := reader.next()) is not None and entry.path not in (LOGS, FILES, MANIFEST):
            _check_path(entry.path)
            digest = sha256(sparse_map(entry.parts) if entry.parts is not None else b"")
            target.add(entry, _hashed(reader, digest.update))
            for chunk in iter(lambda: reader.content(CHUNK_BYTES), b""):  # content that the target skipped
                digest.update(chunk)
            found = digest.hexdigest() if entry.kind == "file" else ""
            if (name := blob_name(entry.path)) and name != found:
                raise BadBackup(
                    f"The blob {name} in the backup is damaged: its content has the hash {found}."
                )
            listing.write(file_line(entry, found))
            files, size, last = files + 1, size + entry.size, entry.path
            on_progress(Progress("Reading the backup", files, size))
        if entry is None:
            raise BadBackup(f"The backup ends after {_shown(last)}, before its manifest. Copy it again.")
        logs_sha256 = _list_hash(reader, entry, LOGS)
        files_sha256 = _compare(reader, reader.next(), listing)
        manifest = Manifest.parse(_small(reader, MANIFEST))
    if (manifest.files_sha256, manifest.logs_sha256) != (files_sha256, logs_sha256):
        raise BadBackup("The manifest of the backup is not the one of these files.")
    if reader.next() is not None:
        raise BadBackup("The backup has entries after its manifest.")
    while stream(CHUNK_BYTES):  # the check sum of a compressed file is at its end
        pass
    return Read(about, manifest)


def heads_sha256(heads: Iterator[LogHead]) -> str:
    """The hash that the list of these logs has in a backup."""
    digest = sha256()
    for head in heads:
        digest.update(log_line(head))
    return digest.hexdigest()


@contextmanager
def open_backup(path: Path) -> Iterator[Callable[[int], bytes]]:
    """Open a backup, compressed or not; yields a function that reads it."""
    if path.is_dir():
        raise BadRequest(f"{echo(str(path), 200)} is a directory. Name a file that hutch backup wrote.")
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise NotFound(f"There is no file {echo(str(path), 200)}.") from None
    except OSError as error:
        raise Unavailable(f"{echo(str(path), 200)} cannot be read: {error.strerror}.") from None
    with closing(file):
        start = file.peek(2)[:2]
        yield _Unpacked(file).read if start == GZIP_MAGIC else file.read


class _Unpacked:
    """The content of a gzip file, which is never held in memory whole."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._unpacker = zlib.decompressobj(wbits=GZIP)
        self._rest = b""

    def read(self, count: int) -> bytes:
        while not self._unpacker.eof:
            data = self._rest or self._file.read(64 * 1024)
            if not data:
                raise BadBackup("The backup is cut short. Copy it again from where it was written.")
            try:
                found = self._unpacker.decompress(data, count)
            except zlib.error as error:
                raise BadBackup(f"The backup is damaged: {error}. Copy it again.") from None
            self._rest = self._unpacker.unconsumed_tail
            if found:
                return found
        return b""


def _hashed(reader: TarReader, update: Callable[[bytes], None]) -> Iterator[bytes]:
    while chunk := reader.content(CHUNK_BYTES):
        update(chunk)
        yield chunk


def _check_path(path: bytes) -> None:
    """Refuse a path that leads anywhere but below the two directories of a backup."""
    names = path.split(b"/")
    if names[0] not in (DATA, SETTINGS) or b"\0" in path:
        raise BadBackup(f"The backup has an entry {_shown(path)}, which is no file of an installation.")
    if any(name in (b"", b".", b"..") or len(name) > MAX_NAME_BYTES for name in names):
        raise BadBackup(f"The backup has an entry {_shown(path)}, which leads somewhere else.")


def _small(reader: TarReader, name: bytes) -> bytes:
    entry = reader.next()
    if entry is None or entry.path != name or entry.kind != "file" or entry.parts is not None:
        raise BadBackup(f"The file is not a backup of Hutch, or not a whole one: {name.decode()} is missing.")
    if entry.size > MAX_JSON_BYTES:
        raise BadBackup(f"{name.decode()} in the backup is too large.")
    return b"".join(iter(lambda: reader.content(CHUNK_BYTES), b""))


def _list_hash(reader: TarReader, entry: Entry | None, name: bytes) -> str:
    if entry is None or entry.path != name:
        raise BadBackup(f"{name.decode()} is missing in the backup.")
    digest = sha256()
    for chunk in _hashed(reader, digest.update):
        del chunk
    return digest.hexdigest()


def _compare(reader: TarReader, entry: Entry | None, listing: IO[bytes]) -> str:
    """Compare the list of files with what was read; returns its hash."""
    if entry is None or entry.path != FILES:
        raise BadBackup(f"{FILES.decode()} is missing in the backup.")
    digest = sha256()
    listing.seek(0)
    for stated, found in zip_longest(_lines(_hashed(reader, digest.update)), listing, fillvalue=b""):
        if stated != found:
            name = _shown((path_in(found) or path_in(stated)).encode("utf-8", "surrogateescape"))
            if path_in(found) == path_in(stated):
                raise BadBackup(f"{name} in the backup is damaged: it is not what its list of files says.")
            raise BadBackup(f"The list of files in the backup does not fit at {name}: one was added or lost.")
    return digest.hexdigest()


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            raise BadBackup(f"{FILES.decode()} in the backup has a line that is too long.")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest


def _shown(path: bytes | None) -> str:
    return echo((path or b"nothing").decode("utf-8", "backslashreplace"), 200)
