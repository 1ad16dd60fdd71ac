class RateLimiter:
    """Counts in fixed periods, which begin anew at multiples of the window."""

    def __init__(self, limit, window_ms):
        self.limit = limit
        self.window_ms = window_ms
        self.counts = {}

    def allow(self, client, now_ms):
        if self.remaining(client, now_ms) <= 0:
            return False
        key = (client, now_ms // self.window_ms)
        self.counts[key] = self.counts.get(key, 0) + 1
        return True

    def remaining(self, client, now_ms):
        return self.limit - self.counts.get((client, now_ms // self.window_ms), 0)
