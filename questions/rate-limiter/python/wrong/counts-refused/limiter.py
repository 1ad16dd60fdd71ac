class RateLimiter:
    """Counts refused requests too, so a client that keeps asking is never allowed again."""

    def __init__(self, limit, window_ms):
        self.limit = limit
        self.window_ms = window_ms
        self.times = {}

    def allow(self, client, now_ms):
        allowed = self.remaining(client, now_ms) > 0
        self.times.setdefault(client, []).append(now_ms)
        return allowed

    def remaining(self, client, now_ms):
        times = [each for each in self.times.get(client, []) if each + self.window_ms > now_ms]
        return max(0, self.limit - len(times))
