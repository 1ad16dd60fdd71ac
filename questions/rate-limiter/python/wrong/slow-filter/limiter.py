class RateLimiter:
    """Right, but each request looks at all requests of the window."""

    def __init__(self, limit, window_ms):
        self.limit = limit
        self.window_ms = window_ms
        self.times = {}

    def allow(self, client, now_ms):
        if self.remaining(client, now_ms) <= 0:
            return False
        self.times.setdefault(client, []).append(now_ms)
        return True

    def remaining(self, client, now_ms):
        times = [each for each in self.times.get(client, []) if each + self.window_ms > now_ms]
        self.times[client] = times
        return self.limit - len(times)
