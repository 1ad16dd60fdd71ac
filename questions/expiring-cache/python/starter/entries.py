"""The entries of a cache, and which of them was used least recently."""


class Entry:
    def __init__(self, key: str, value: str, expires_ms: int, used: int) -> None:
        self.key = key
        self.value = value
        self.expires_ms = expires_ms
        self.used = used  # the number of the use, higher is later


class Entries:
    def __init__(self) -> None:
        self.by_key: dict[str, Entry] = {}
        self._uses = 0

    def next_use(self) -> int:
        self._uses += 1
        return self._uses

    def add(self, key: str, value: str, expires_ms: int) -> None:
        self.by_key[key] = Entry(key, value, expires_ms, self.next_use())

    def remove_oldest(self) -> None:
        """Remove the entry that was used least recently."""
        oldest = None
        for entry in self.by_key.values():
            if oldest is None or entry.used < oldest.used:
                oldest = entry
        if oldest is not None:
            del self.by_key[oldest.key]
