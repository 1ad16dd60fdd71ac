"""Right, but goes through all entries to find the oldest."""


class Entry:
    def __init__(self, key, value, expires_ms, used):
        self.key = key
        self.value = value
        self.expires_ms = expires_ms
        self.used = used


class Entries:
    def __init__(self):
        self.by_key = {}
        self._uses = 0

    def set(self, key, value, expires_ms):
        self.by_key[key] = Entry(key, value, expires_ms, 0)
        self.use(key)

    def use(self, key):
        self._uses += 1
        self.by_key[key].used = self._uses

    def remove_oldest(self):
        oldest = min(self.by_key.values(), key=lambda entry: entry.used)
        del self.by_key[oldest.key]
