"""Writes the new objects of a snapshot as one pack.

A pack consists of two files for any number of objects. They are synced together with
the ref of the snapshot, and then their directories, so a snapshot waits for the disk
twice, instead of once for each object. A large file becomes its own pack, streamed and
marked with .keep: git reads it like any other, and garbage collection can delete it
without copying the rest.
"""

import hashlib
import secrets
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import IO

from hutch.snapshots.git_object_reader import CHUNK_BYTES, KINDS, object_name
from hutch.system.atomic_file import sync_directory
from hutch.system.chunked_collection_operations import CHUNK_SIZE, chunks, clear_in_chunks, sort_in_chunks
from hutch.system.lazy_dataclass import dataclass
from hutch.system.multiple_file_sync import sync_directories, sync_together

NUMBERS = {kind: number for number, kind in KINDS.items()}
SAMPLE_BYTES = 1 << 14


@dataclass(frozen=True, slots=True)
class RefDraft:
    """The ref of a snapshot whose objects are being written. It is not yet on disk, nor visible."""

    file: IO[bytes]
    temporary: Path
    path: Path

    @property
    def directory(self) -> Path:
        return self.path.parent

    def publish(self) -> None:
        self.temporary.rename(self.path)


class FileShrunk(Exception):
    """A file became shorter than it was when it was opened."""


class PackWriter:
    """Collects objects for a pack. Nothing is visible before `finish`."""

    def __init__(self, objects: Path, *, stored: Container[bytes] = frozenset(), refer: bool = False) -> None:
        self.directory = objects / "pack"
        self.stored = stored  # objects that need not be written
        self.refer = refer  # large private files are hashed, not copied
        self.bytes = 0  # of added contents
        self._file: IO[bytes] | None = None
        self._path = self.directory / f"tmp_pack_{secrets.token_hex(8)}"
        self._entries: dict[bytes, tuple[int, int]] = {}  # name -> where, crc

    def add(self, kind: str, data: bytes, *, known: AbstractSet[bytes] = frozenset()) -> bytes:
        """Write an object unless it is `known`, that is already stored; returns its name."""
        name = object_name(kind, data)
        if name in known or name in self._entries or name in self.stored:
            return name
        if self._file is None:
            self._file = self._path.open("w+b", buffering=CHUNK_BYTES)
            self._file.write(b"PACK" + struct.pack(">II", 2, 0))
        packed = _head(NUMBERS[kind], len(data)) + zlib.compress(data, _level(data[:SAMPLE_BYTES]))
        self._entries[name] = (self._file.tell(), zlib.crc32(packed))
        self._file.write(packed)
        self.bytes += len(data)
        return name

    def add_large(
        self,
        read: Callable[[int], bytes],
        size: int,
        *,
        known: AbstractSet[bytes] = frozenset(),
        private: bool = False,
    ) -> bytes:
        """Write a blob of `size` bytes from `read` as its own pack; returns its name."""
        if private and self.refer:
            return hash_blob(read, size)
        path = self.directory / f"tmp_pack_{secrets.token_hex(8)}"
        # A random name: a pack named by content could be one that is being collected.
        final = self.directory / f"pack-{secrets.token_hex(20)}"
        try:
            with path.open("w+b") as file:
                name, crc, checksum = _stream(file, read, size)
                if name in known or name in self.stored:
                    return name
                final.with_suffix(".keep").write_bytes(name.hex().encode())
                _publish(file, path, final, {name: (12, crc)}, checksum)
        except BaseException:
            final.with_suffix(".keep").unlink(missing_ok=True)
            raise
        finally:
            path.unlink(missing_ok=True)  # if it was not renamed
        self.bytes += size
        return name

    def finish(self, draft: RefDraft | None = None) -> None:
        """Sync everything, then make it visible; then also the ref of a snapshot."""
        if self._file is None:
            if draft is not None:
                sync_together([draft.file.fileno()])
                draft.publish()
                sync_directories(self.directory, draft.directory)
            return
        file, self._file = self._file, None
        try:
            with file:
                file.seek(8)
                file.write(struct.pack(">I", len(self._entries)))
                file.seek(0)
                hasher = hashlib.sha1(usedforsecurity=False)
                while data := file.read(CHUNK_BYTES):
                    hasher.update(data)
                file.write(hasher.digest())
                final = self.directory / f"pack-{hasher.hexdigest()}"
                _publish(file, self._path, final, self._entries, hasher.digest(), draft)
        finally:
            self._path.unlink(missing_ok=True)  # if it was not renamed
            clear_in_chunks(self._entries)
        if draft is None:
            sync_directory(self.directory)  # includes the large packs
        else:
            draft.publish()
            sync_directories(self.directory, draft.directory)

    def abandon(self) -> None:
        """Remove the temporary file; no effect after `finish`."""
        if self._file is None:
            return
        file, self._file = self._file, None
        try:
            with suppress(OSError):  # the disk may be full
                file.close()
        finally:
            self._path.unlink(missing_ok=True)
            clear_in_chunks(self._entries)


def hash_blob(read: Callable[[int], bytes], size: int) -> bytes:
    """The name of a blob of `size` bytes from `read`."""
    blob = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    while size:
        data = read(min(CHUNK_BYTES, size))
        if not data:
            raise FileShrunk
        blob.update(data)
        size -= len(data)
    return blob.digest()


def _stream(file: IO[bytes], read: Callable[[int], bytes], size: int) -> tuple[bytes, int, bytes]:
    """Write a pack of one blob; returns its name, the CRC of its entry, and the pack's checksum."""
    blob = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    pack = hashlib.sha1(usedforsecurity=False)
    data = read(min(CHUNK_BYTES, size))
    stream = zlib.compressobj(_level(data[:SAMPLE_BYTES]))
    crc = 0

    def put(part: bytes, *, counted: bool = True) -> None:
        nonlocal crc
        pack.update(part)
        file.write(part)
        crc = zlib.crc32(part, crc) if counted else crc

    put(b"PACK" + struct.pack(">II", 2, 1), counted=False)
    put(_head(NUMBERS["blob"], size))
    remaining = size
    while remaining:
        if not data:
            raise FileShrunk
        blob.update(data)
        put(stream.compress(data))
        remaining -= len(data)
        data = read(min(CHUNK_BYTES, remaining)) if remaining else b""
    put(stream.flush())
    file.write(pack.digest())
    return blob.digest(), crc, pack.digest()


def _publish(
    pack: IO[bytes],
    path: Path,
    final: Path,
    entries: dict[bytes, tuple[int, int]],
    checksum: bytes,
    draft: RefDraft | None = None,
) -> None:
    """Write the index of a pack, sync both and the ref, and rename both; the index last, because it makes
    the pack visible."""
    index = path.with_name(path.name + "_idx")
    try:
        with index.open("wb", buffering=CHUNK_BYTES) as file:
            hasher = hashlib.sha1(usedforsecurity=False)
            for part in _index(entries, checksum):
                hasher.update(part)
                file.write(part)
            file.write(hasher.digest())
            file.flush()
            pack.flush()
            synced = [pack, file] if draft is None else [pack, file, draft.file]
            sync_together([each.fileno() for each in synced])
        path.rename(final.with_suffix(".pack"))
        index.rename(final.with_suffix(".idx"))
    finally:
        index.unlink(missing_ok=True)


def _index(entries: dict[bytes, tuple[int, int]], checksum: bytes) -> Iterator[bytes]:
    """The index of a pack, in parts."""
    groups = _sorted_groups(entries)
    counts = Counter(name[0] for name in entries)
    yield b"\xfftOc\0\0\0\2" + struct.pack(">256I", *accumulate(counts[byte] for byte in range(256)))
    for group in groups:
        yield b"".join(group)
    for group in groups:
        yield struct.pack(f">{len(group)}I", *(entries[name][1] for name in group))
    far: list[int] = []
    for group in groups:
        near = []
        for name in group:
            offset = entries[name][0]
            if offset >= 1 << 31:
                far.append(offset)
                offset = (1 << 31) + len(far) - 1
            near.append(offset)
        yield struct.pack(f">{len(near)}I", *near)
    for piece in chunks(far):
        yield struct.pack(f">{len(piece)}Q", *piece)
    yield checksum


def _sorted_groups(names: Collection[bytes]) -> list[list[bytes]]:
    """The names in order. A pack may hold a million names, and sorting all of them in one call would block
    the interpreter for too long, so large packs are sorted in groups by the first byte."""
    if len(names) <= CHUNK_SIZE:
        return [sorted(names)]
    groups: list[list[bytes]] = [[] for _ in range(256)]
    for name in names:
        groups[name[0]].append(name)
    return [sort_in_chunks(group) for group in groups]


def _head(number: int, size: int) -> bytes:
    head = bytearray([number << 4 | size & 15])
    size >>= 4
    while size:
        head[-1] |= 0x80
        head.append(size & 0x7F)
        size >>= 7
    return bytes(head)


def _level(sample: bytes) -> int:
    """Compress only data that gets smaller; compressing images, for example, only costs time."""
    return 1 if len(sample) < 512 or len(zlib.compress(sample, 1)) < 0.9 * len(sample) else 0
