"""Caches the result of the last scan, so that the next one reads only changed files.

There is one listing per directory, in memory and in a file that is appended to until
rewriting it is worthwhile. Listings are valid from the frame that names their snapshot;
if that snapshot is gone, its objects may be gone too, and the cache is discarded. The
jail cannot reach the file. A truncated or outdated cache is discarded and rebuilt.

There may be a million files. As tuples they would be visited by every full garbage
collection, which would block the event loop. So the entries of a listing are bytes,
which are not visited and take less memory.
"""

import marshal
import mmap
import os
import struct
import zlib
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import structlog

from hutch.snapshots.disk_walk import StatKey
from hutch.snapshots.snapshot_tree_layout import Branch, Item, Leaf, OmittedEntry
from hutch.system.chunked_collection_operations import (
    CHUNK_SIZE,
    chunks,
    clear_in_chunks,
    equal_in_chunks,
)
from hutch.system.lazy_dataclass import dataclass

LEAF = struct.Struct(">IBq")  # mode, section, size; then the name of the blob
PackedItem = bytes | Branch | OmittedEntry
logger = structlog.get_logger()

MAGIC = b"hutch listings 2\n"
MARSHAL = 4  # a version of the format that every Python since 3.4 reads
FRAME = struct.Struct(">II")
Anchor = tuple[int, str]  # a snapshot: its number and commit
SHAPES = (Leaf, Branch, OmittedEntry)
EncodedListing = tuple[Any, ...]  # a listing as plain tuples, the only form that marshal writes
MAX_GROWTH_FACTOR = 4  # the file is rewritten when it exceeds the used size by this factor
MIN_REWRITE_BYTES = 1 << 20


class Items(MutableMapping[str, Item]):
    """Entries by name. Files are stored as bytes, and returned as leaves."""

    __slots__ = ("packed",)

    def __init__(
        self, items: Mapping[str, Item] | None = None, *, packed: dict[str, PackedItem] | None = None
    ):
        self.packed: dict[str, PackedItem] = {} if packed is None else packed
        if items is not None:
            self.add(items)

    def __getitem__(self, name: str) -> Item:
        value = self.packed[name]
        return unpack_leaf(value) if isinstance(value, bytes) else value

    def __setitem__(self, name: str, item: Item) -> None:
        self.packed[name] = pack_item(item)

    def __delitem__(self, name: str) -> None:
        del self.packed[name]

    def __contains__(self, name: object) -> bool:
        return name in self.packed

    def __iter__(self) -> Iterator[str]:
        return iter(self.packed)

    def __len__(self) -> int:
        return len(self.packed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Items) and equal_in_chunks(self.packed, other.packed)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Items({dict(self)!r})"

    def items(self) -> "ItemsView[str, Item]":
        return _UnpackedItems(self)

    def add(self, items: Mapping[str, Item]) -> None:
        """Add or replace all of these."""
        if isinstance(items, Items):
            self.packed.update(items.packed)
        else:
            self.packed.update((name, pack_item(item)) for name, item in items.items())


class _UnpackedItems(ItemsView[str, Item]):
    """As inherited, but without a call for each name."""

    _mapping: Items

    def __iter__(self) -> Iterator[tuple[str, Item]]:
        for name, value in self._mapping.packed.items():
            yield name, unpack_leaf(value) if isinstance(value, bytes) else value


def pack_item(item: Item) -> PackedItem:
    if isinstance(item, Leaf):
        return LEAF.pack(item.mode, item.section, item.size) + item.name
    return item


def unpack_leaf(value: bytes) -> Leaf:
    mode, section, size = LEAF.unpack_from(value)
    return Leaf(mode, value[LEAF.size :], section, size)


@dataclass(slots=True, eq=False)
class Listing:
    """The result of scanning one directory."""

    keys: dict[str, StatKey]  # of files whose next change will show in the key
    items: Items
    branch: Branch
    context: bytes  # digest of the rules
    children: frozenset[str]  # directories with their own listings
    unsettled: bool = False  # an entry has no key
    whiteouts: frozenset[str] = frozenset()  # names that hide entries of the directory below the overlay
    opaque: bool = False
    below: Branch | None = None  # that directory

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Listing)
            and self._rest() == other._rest()
            and equal_in_chunks(self.keys, other.keys)
            and self.items == other.items
        )

    __hash__ = None  # type: ignore[assignment]

    def _rest(self) -> tuple[object, ...]:
        rules = (self.branch, self.context, self.opaque, self.below)
        return (*rules, self.children, self.whiteouts, self.unsettled)


class StatCache:
    """Listings by path, and the file that stores them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.listings: dict[str, Listing] = {}
        self.anchor: Anchor | None = None
        self._identity: tuple[int, int, int] | None = None
        self._live_bytes = 0

    def refresh(self, anchored: Callable[[int, str], bool]) -> None:
        """Reload the file if another process has written it; discard everything if its snapshot is gone."""
        if self._identity is None or self._identity != _identity(self.path):
            self.listings, self.anchor = _load(self.path)
            self._identity = _identity(self.path)
            self._live_bytes = self._identity[1] if self._identity else 0
        if self.anchor is None or not anchored(*self.anchor):
            self.listings, self.anchor = {}, None

    def update(self, changed: Mapping[str, Listing | None], anchor: Anchor) -> None:
        """Store changed listings as part of that snapshot."""
        for path, listing in changed.items():
            if listing is None:
                self.listings.pop(path, None)
            else:
                self.listings[path] = listing
        rewrite = self.anchor is None or self._identity is None
        length = self._identity[1] if self._identity else 0
        self.anchor = anchor
        try:
            self._write(
                changed,
                rewrite=rewrite or length > max(MAX_GROWTH_FACTOR * self._live_bytes, MIN_REWRITE_BYTES),
            )
        except OSError as error:  # perhaps no space: the next scan reads more files, with the same result
            logger.warning("snapshots.cache_not_written", error=error.strerror)
            self.listings, self.anchor, self._identity = {}, None, None

    def release(self, changed: Mapping[str, Listing | None]) -> None:
        """Free listings that are not stored. Large ones are freed entry by entry."""
        for path, listing in changed.items():
            if listing is None:
                continue
            before = self.listings.get(path)
            if before is None or before.keys is not listing.keys:
                clear_in_chunks(listing.keys)
            clear_in_chunks(listing.items.packed)

    def _write(self, changed: Mapping[str, Listing | None], *, rewrite: bool) -> None:
        assert self.anchor is not None
        if rewrite:
            temporary = self.path.with_name(self.path.name + ".new")
            try:
                with temporary.open("wb") as file:
                    file.write(MAGIC)
                    file.writelines(encode_frames(self.listings.items()))
                    file.write(encode_frame(self.anchor))
                temporary.rename(self.path)
            finally:
                temporary.unlink(missing_ok=True)
            self._identity = _identity(self.path)
            self._live_bytes = self._identity[1] if self._identity else 0
        else:
            with self.path.open("ab") as file:
                file.writelines(encode_frames(changed.items()))
                file.write(encode_frame(self.anchor))
            self._identity = _identity(self.path)


def encode_frames(listings: Iterable[tuple[str, Listing | None]]) -> Iterator[bytes]:
    for path, listing in listings:
        yield encode_frame((path, None if listing is None else encode_listing(listing)))


def read_frame(data: bytes | mmap.mmap, at: int) -> tuple[Any, int]:
    """The value of the frame at an offset, and the next offset; ValueError if the frame is truncated."""
    if at + FRAME.size > len(data):
        raise ValueError("truncated frame")
    length, crc = FRAME.unpack(data[at : at + FRAME.size])
    body = data[at + FRAME.size : at + FRAME.size + length]
    if len(body) != length or zlib.crc32(body) != crc:
        raise ValueError("truncated frame")
    return marshal.loads(body), at + FRAME.size + length


def decode_listing(encoded: EncodedListing) -> Listing:
    keys, items, branch, context, children, unsettled, whiteouts, opaque, below = encoded
    return Listing(
        keys=_join(keys),
        items=Items(packed={name: _read(value) for name, value in _join(items).items()}),
        branch=Branch(*branch),
        context=context,
        children=frozenset(_join(children)),
        unsettled=unsettled,
        whiteouts=frozenset(_join(whiteouts)),
        opaque=opaque,
        below=None if below is None else Branch(*below),
    )


def encode_listing(listing: Listing) -> EncodedListing:
    return (
        _split(listing.keys),
        _split({name: _written(value) for name, value in listing.items.packed.items()}),
        tuple(listing.branch),
        listing.context,
        _split(dict.fromkeys(listing.children)),
        listing.unsettled,
        _split(dict.fromkeys(listing.whiteouts)),
        listing.opaque,
        None if listing.below is None else tuple(listing.below),
    )


def _written(value: PackedItem) -> Any:
    return value if isinstance(value, bytes) else (SHAPES.index(type(value)), *value)


def _read(value: Any) -> PackedItem:
    if isinstance(value, bytes):
        return value
    kind, *rest = value
    return pack_item(SHAPES[kind](*rest))  # files that an earlier version wrote are tuples, too


def _split(entries: dict[str, Any]) -> Any:
    """Entries for writing; those of a very large directory in chunks, each marshalled separately."""
    if len(entries) <= CHUNK_SIZE:
        return entries
    return tuple(marshal.dumps(dict(piece), MARSHAL) for piece in chunks(entries.items()))


def _join(written: Any) -> Any:
    if not isinstance(written, tuple):
        return written
    entries: dict[str, Any] = {}
    for piece in written:
        entries.update(marshal.loads(piece))
    return entries


def encode_frame(value: Any) -> bytes:
    body = marshal.dumps(value, MARSHAL)
    return FRAME.pack(len(body), zlib.crc32(body)) + body


def _load(path: Path) -> tuple[dict[str, Listing], Anchor | None]:
    try:
        data = path.read_bytes()
    except OSError:
        return {}, None
    if not data.startswith(MAGIC):
        return {}, None
    settled: dict[str, EncodedListing] = {}
    waiting: dict[str, EncodedListing | None] = {}
    anchor: Anchor | None = None
    at = good = len(MAGIC)
    while at < len(data):
        try:
            value, at = read_frame(data, at)
        except ValueError:
            break
        if isinstance(value[0], int):
            for name, found in waiting.items():
                if found is None:
                    settled.pop(name, None)
                else:
                    settled[name] = found
            waiting, anchor, good = {}, value, at
        else:
            waiting[value[0]] = value[1]
    if good < len(data):
        try:
            os.truncate(path, good)  # nothing may be appended after a truncated frame
        except OSError:
            return {}, None
    return {name: decode_listing(found) for name, found in settled.items()}, anchor


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
