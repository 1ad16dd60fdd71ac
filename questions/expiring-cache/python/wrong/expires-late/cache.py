"""A cache with a limited number of values, each for a limited time."""

from typing import Optional

from entries import Entries


class ExpiringCache:
    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.entries = Entries()

    def put(self, key: str, value: str, ttl_ms: int, now_ms: int) -> None:
        """Store a value until `now_ms + ttl_ms`."""
        if key not in self.entries.by_key and len(self.entries.by_key) >= self.capacity:
            self.entries.remove_oldest()
        self.entries.set(key, value, now_ms + ttl_ms)

    def get(self, key: str, now_ms: int) -> Optional[str]:
        """The value, or None if there is none or it has expired."""
        entry = self.entries.by_key.get(key)
        if entry is None:
            return None
        if now_ms > entry.expires_ms:
            del self.entries.by_key[key]
            return None
        self.entries.use(key)
        return entry.value

    def size(self, now_ms: int) -> int:
        """The number of values that have not expired."""
        return sum(now_ms < entry.expires_ms for entry in self.entries.by_key.values())
