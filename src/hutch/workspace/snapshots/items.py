"""What a directory holds, kept compactly for as long as the server runs.

There may be a million files. As tuples they would be visited by every full garbage
collection, in one step during which the event loop stands still. Bytes are not visited,
and take less memory.
"""

import struct
from collections.abc import Iterator, Mapping, MutableMapping

from hutch.workspace.pieces import equal_in_pieces
from hutch.workspace.snapshots.layout import Absent, Branch, Item, Leaf

LEAF = struct.Struct(">IBq")  # mode, place, size; then the name of the blob
Packed = bytes | Branch | Absent


class Items(MutableMapping[str, Item]):
    """Entries by name. Files are bytes in here, and leaves outside."""

    __slots__ = ("packed",)

    def __init__(self, items: Mapping[str, Item] | None = None, *, packed: dict[str, Packed] | None = None):
        self.packed: dict[str, Packed] = {} if packed is None else packed
        if items is not None:
            self.add(items)

    def __getitem__(self, name: str) -> Item:
        return _unpacked(self.packed[name])

    def __setitem__(self, name: str, item: Item) -> None:
        self.packed[name] = packed(item)

    def __delitem__(self, name: str) -> None:
        del self.packed[name]

    def __contains__(self, name: object) -> bool:
        return name in self.packed

    def __iter__(self) -> Iterator[str]:
        return iter(self.packed)

    def __len__(self) -> int:
        return len(self.packed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Items) and equal_in_pieces(self.packed, other.packed)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Items({dict(self)!r})"

    def add(self, items: Mapping[str, Item]) -> None:
        """Take over all of these."""
        if isinstance(items, Items):
            self.packed.update(items.packed)
        else:
            self.packed.update((name, packed(item)) for name, item in items.items())


def packed(item: Item) -> Packed:
    if isinstance(item, Leaf):
        return LEAF.pack(item.mode, item.place, item.size) + item.name
    return item


def _unpacked(value: Packed) -> Item:
    if isinstance(value, bytes):
        mode, place, size = LEAF.unpack_from(value)
        return Leaf(mode, value[LEAF.size :], place, size)
    return value
