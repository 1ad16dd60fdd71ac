"""The entries of a cache, in the order in which they were used."""

from collections import OrderedDict


class Entry:
    def __init__(self, value: str, expires_ms: int) -> None:
        self.value = value
        self.expires_ms = expires_ms


class Entries:
    def __init__(self) -> None:
        self.by_key: OrderedDict[str, Entry] = OrderedDict()  # the least recently used first

    def set(self, key: str, value: str, expires_ms: int) -> None:
        """Add an entry, or replace it; either is a use."""
        self.by_key[key] = Entry(value, expires_ms)
        self.by_key.move_to_end(key)

    def use(self, key: str) -> None:
        self.by_key.move_to_end(key)

    def remove_oldest(self) -> None:
        """Remove the entry that was used least recently."""
        self.by_key.popitem(last=False)
