"""Reads git objects in this process.

Starting git would take longer than a whole snapshot. So trees and blobs are read
here: loose objects and packs, with deltas, in an object directory and its
alternates. Objects are named by the 20 bytes of their SHA-1, not by hexadecimal text.
"""

import functools
import hashlib
import mmap
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hutch.domain.errors import Unavailable
from hutch.system.chunked_collection_operations import sort_in_chunks

KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
OFFSET_DELTA, NAME_DELTA = 6, 7
CHUNK_BYTES = 1 << 18
MAPPED_BYTES = 1 << 18
SMALL_BYTES = 1 << 13  # of an index; some 250 objects
EMPTY_TREE = bytes.fromhex("4b825dc642cb6eb9a060e54bf8d69288fbee4904")
TREE, LINK, GITLINK = 0o040000, 0o120000, 0o160000
MAX_SPLIT_BYTES = 1 << 19  # of a tree that is split in one call: a larger one would block other threads
MAX_CACHED_BYTES = 1 << 16  # of a tree that is kept parsed: every save of a file reads its directory again
MAX_CACHED_TREES = 16
Entry = tuple[int, bytes, bytes]
_ENTRY = re.compile(rb"([0-7]+) ([^\0]+)\0(.{20})", re.DOTALL)


class PackLocation(NamedTuple):
    """The location of an object in a pack."""

    path: Path
    offset: int


class GitObjects:
    """The objects of a git object directory and its alternates."""

    def __init__(self, directory: Path, *, elsewhere: Mapping[bytes, Path] | None = None) -> None:
        self.directory = directory
        self.elsewhere = elsewhere or {}  # blobs that are stored as plain files
        self._directories = list(_with_borrowed(directory))
        self._packs = _Packs()
        self._trees: dict[bytes, tuple[Entry, ...]] = {}  # those that were read last, unless they are large

    def read(self, name: bytes, kind: str) -> bytes:
        """The content of an object; raises if it is of another kind."""
        found, data = self._read(name)
        if found != kind:
            raise Unavailable(f"Object {name.hex()} in {self.directory} is a {found}, not a {kind}.")
        return data

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, bytes):
            return False
        text = name.hex()
        loose = (directory / text[:2] / text[2:] for directory in self._directories)
        return (
            name in self.elsewhere or self._stored(name) is not None or any(path.exists() for path in loose)
        )

    def tree(self, name: bytes | None) -> Sequence[Entry]:
        """The entries of a tree: mode, name, object."""
        return self._tree(name) or ()

    def changed_names(self, old: bytes | None, new: bytes | None) -> set[bytes] | None:
        """The names of the entries that differ between two trees; None if they are too large to say."""
        if old == new:
            return set()
        before = self._tree(old, max_bytes=MAX_SPLIT_BYTES)
        after = self._tree(new, max_bytes=MAX_SPLIT_BYTES)
        return None if before is None or after is None else {name for _, name, _ in set(before) ^ set(after)}

    def _tree(self, name: bytes | None, *, max_bytes: int | None = None) -> tuple[Entry, ...] | None:
        """The entries of a tree; None if it is larger than `max_bytes`."""
        if name is None or name == EMPTY_TREE:
            return ()
        found = self._trees.get(name)
        if found is None:
            if len(data := self.read(name, "tree")) > (max_bytes or len(data)):
                return None
            found = tuple(parse_tree(data))
            if len(data) <= MAX_CACHED_BYTES:
                kept = self._trees if len(self._trees) < MAX_CACHED_TREES else {}
                kept[name] = found
                self._trees = kept  # in one step, since other threads read it
        return found

    def chunks(self, name: bytes) -> Iterator[bytes]:
        """The content of a blob in chunks."""
        if path := self.elsewhere.get(name):
            with path.open("rb") as file:
                while data := file.read(CHUNK_BYTES):
                    yield data
            return
        stored = self._stored(name)
        if stored is None:
            yield self.read(name, "blob")
            return
        descriptor = _open(stored.path)
        try:
            kind, _, at = _header(descriptor, stored.offset)
            if KINDS.get(kind) != "blob":
                yield self.read(name, "blob")
                return
            stream = zlib.decompressobj()
            while not stream.eof:
                data = stream.unconsumed_tail
                if not data:
                    data = os.pread(descriptor, CHUNK_BYTES, at)
                    at += len(data)
                    if not data:
                        raise self._missing(name)
                if plain := stream.decompress(data, CHUNK_BYTES):
                    yield plain
        finally:
            os.close(descriptor)

    def _read(self, name: bytes) -> tuple[str, bytes]:
        deltas: list[bytes] = []
        stored = self._stored(name)
        while True:
            if stored is None:
                kind, data = self._loose(name)
                break
            descriptor = _open(stored.path)
            try:
                number, size, at = _header(descriptor, stored.offset)
                if number == OFFSET_DELTA:
                    back, at = _distance(descriptor, at)
                    deltas.append(_inflate(descriptor, at, size, stored.path))
                    stored = PackLocation(stored.path, stored.offset - back)
                elif number == NAME_DELTA:
                    name = os.pread(descriptor, 20, at)
                    deltas.append(_inflate(descriptor, at + 20, size, stored.path))
                    stored = self._stored(name)
                else:
                    kind, data = KINDS[number], _inflate(descriptor, at, size, stored.path)
                    break
            finally:
                os.close(descriptor)
        for delta in reversed(deltas):
            data = _apply_delta(data, delta)
        return kind, data

    def _stored(self, name: bytes) -> PackLocation | None:
        packs = self._packs
        if (found := packs.find(name)) and found.path.exists():
            return found
        listed = list(self._listed())  # packs are added and removed
        if listed == packs.listed:
            return None
        self._packs = packs = packs.changed(listed)  # in one assignment: other threads may be searching
        return packs.find(name)

    def _listed(self) -> Iterator[Path]:
        for directory in self._directories:
            try:
                names = os.listdir(directory / "pack")  # noqa: PTH208 (names are all we need)
            except FileNotFoundError:
                continue
            yield from (directory / "pack" / each for each in sorted(names) if each.endswith(".idx"))

    def _loose(self, name: bytes) -> tuple[str, bytes]:
        text = name.hex()
        for directory in self._directories:
            try:
                data = zlib.decompress((directory / text[:2] / text[2:]).read_bytes())
            except FileNotFoundError:
                continue
            head, _, content = data.partition(b"\0")
            return head.split(b" ")[0].decode(), content
        raise self._missing(name)

    def _missing(self, name: bytes) -> Unavailable:
        return Unavailable(
            f"Object {name.hex()} is missing or damaged in {self.directory}. "
            "Snapshots that contain it cannot be read; others can."
        )


class _Packs:
    """The locations of objects in a list of packs.

    Each snapshot adds a small pack. Searching a hundred of them one by one would be slow, so the
    objects of small packs are in one dictionary.
    """

    def __init__(
        self,
        listed: Sequence[Path] = (),
        large: Sequence[Path] = (),
        small: Mapping[bytes, PackLocation] | None = None,
    ) -> None:
        self.listed = listed  # index files of all packs
        self._large = large  # index files of large packs, searched one by one
        self._small = small or {}  # objects of the small packs, by name

    def find(self, name: bytes) -> PackLocation | None:
        if found := self._small.get(name):
            return found
        for path in self._large:
            try:
                offset = _index(path).find(name)
            except FileNotFoundError:
                continue
            if offset is not None:
                return PackLocation(path.with_suffix(".pack"), offset)
        return None

    def changed(self, listed: Sequence[Path]) -> "_Packs":
        """A copy for another list of packs: reads new ones, and drops removed ones."""
        old = set(self.listed)
        large, small = list(self._large), dict(self._small)
        if old.difference(listed):
            old, large, small = set(), [], {}
        for path in listed:
            if path in old:
                continue
            try:
                if path.stat().st_size > SMALL_BYTES:
                    large.append(path)
                else:
                    pack = path.with_suffix(".pack")
                    small |= {name: PackLocation(pack, offset) for name, offset in _Index(path).entries()}
            except FileNotFoundError:
                continue
        return _Packs(listed, large, small)


class _Index:
    """The index of a pack: sorted names, and the offset of each object."""

    def __init__(self, path: Path) -> None:
        self.table: bytes | mmap.mmap
        with path.open("rb") as file:
            if (
                path.stat().st_size > MAPPED_BYTES
            ):  # each mapping holds a descriptor, and small indexes are many
                self.table = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            else:
                self.table = file.read()
        if self.table[:8] != b"\xfftOc\0\0\0\2":
            raise Unavailable(f"{path} is not a pack index of version 2.")
        self.count = int.from_bytes(self.table[1028:1032], "big")

    def find(self, name: bytes) -> int | None:
        first = 8 + 4 * name[0]
        low = int.from_bytes(self.table[first - 4 : first], "big") if name[0] else 0
        high = int.from_bytes(self.table[first : first + 4], "big")
        while low < high:
            middle = (low + high) // 2
            at = 1032 + 20 * middle
            here = self.table[at : at + 20]
            if here == name:
                return self._offset(middle)
            low, high = (middle + 1, high) if here < name else (low, middle)
        return None

    def entries(self) -> Iterator[tuple[bytes, int]]:
        for position in range(self.count):
            at = 1032 + 20 * position
            yield bytes(self.table[at : at + 20]), self._offset(position)

    def _offset(self, position: int) -> int:
        offsets = 1032 + 24 * self.count
        at = offsets + 4 * position
        offset = int.from_bytes(self.table[at : at + 4], "big")
        if offset < 1 << 31:
            return offset
        at = offsets + 4 * self.count + 8 * (offset - (1 << 31))
        return int.from_bytes(self.table[at : at + 8], "big")


@functools.lru_cache(maxsize=256)
def _index(path: Path) -> _Index:
    return _Index(path)  # a pack is named by its content, so an index never changes


def object_name(kind: str, data: bytes) -> bytes:
    """Git's name of an object."""
    hasher = hashlib.sha1(b"%s %d\0" % (kind.encode(), len(data)), usedforsecurity=False)
    hasher.update(data)
    return hasher.digest()


def parse_tree(data: bytes) -> list[tuple[int, bytes, bytes]]:
    """The entries of a tree object: mode, name, object."""
    if len(data) <= MAX_SPLIT_BYTES:
        return [(int(mode, 8), name, found) for mode, name, found in split_tree(data)]
    entries = []
    at = 0
    while at < len(data):
        end = data.index(b"\0", at)
        mode, _, name = data[at:end].partition(b" ")
        entries.append((int(mode, 8), name, data[end + 1 : end + 21]))
        at = end + 21
    return entries


def split_tree(data: bytes) -> list[tuple[bytes, bytes, bytes]]:
    """Like `parse_tree`, with the modes as they are written: one call, fast and uninterruptible."""
    entries: list[tuple[bytes, bytes, bytes]] = _ENTRY.findall(data)
    if sum(len(mode) + len(name) for mode, name, _ in entries) + 22 * len(entries) != len(data):
        raise ValueError("malformed tree")
    return entries


def format_tree(entries: list[tuple[int, bytes, bytes]]) -> bytes:
    """A tree object, in git's order: a directory sorts as if its name ended in a slash."""
    ordered = sort_in_chunks(entries, key=lambda entry: entry[1] + b"/" if entry[0] == TREE else entry[1])
    return b"".join(b"%o %s\0%s" % entry for entry in ordered)


def _with_borrowed(directory: Path) -> Iterator[Path]:
    seen: set[Path] = set()
    waiting = [directory]
    while waiting:
        here = waiting.pop(0)
        if here in seen:
            continue
        seen.add(here)
        yield here
        try:
            lines = os.fsdecode((here / "info/alternates").read_bytes()).split("\n")
        except FileNotFoundError:
            continue
        waiting += [Path(os.path.normpath(here / line)) for line in lines if line and line[0] != "#"]


def _open(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _header(descriptor: int, offset: int) -> tuple[int, int, int]:
    """The kind, the size, and the offset of the data."""
    data = os.pread(descriptor, 16, offset)
    kind, size, shift, used = data[0] >> 4 & 7, data[0] & 15, 4, 1
    while data[used - 1] & 0x80:
        size |= (data[used] & 0x7F) << shift
        shift, used = shift + 7, used + 1
    return kind, size, offset + used


def _distance(descriptor: int, at: int) -> tuple[int, int]:
    data = os.pread(descriptor, 16, at)
    distance, used = data[0] & 0x7F, 1
    while data[used - 1] & 0x80:
        distance = (distance + 1) << 7 | data[used] & 0x7F
        used += 1
    return distance, at + used


def _inflate(descriptor: int, at: int, size: int, path: Path) -> bytes:
    stream = zlib.decompressobj()
    parts = []
    while not stream.eof:
        data = os.pread(descriptor, min(size + 1024, 1 << 22), at)
        if not data:
            raise Unavailable(
                f"The pack file {path} ends too early: the disk is damaged, or the file was copied in part. "
                "Restore it from a backup. Snapshots without objects of this file can be read."
            )
        at += len(data)
        parts.append(stream.decompress(data))
    return b"".join(parts)


def _apply_delta(source: bytes, delta: bytes) -> bytes:
    at = 0
    for _ in range(2):  # the two sizes
        while delta[at] & 0x80:
            at += 1
        at += 1
    parts = []
    while at < len(delta):
        order = delta[at]
        at += 1
        if not order & 0x80:
            parts.append(delta[at : at + order])
            at += order
            continue
        offset = size = 0
        for bit in range(7):
            if order & 1 << bit:
                if bit < 4:
                    offset |= delta[at] << 8 * bit
                else:
                    size |= delta[at] << 8 * (bit - 4)
                at += 1
        size = size or 0x10000
        parts.append(source[offset : offset + size])
    return b"".join(parts)
