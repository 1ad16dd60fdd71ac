/** Right, but each request looks at all requests of the window. */
export class RateLimiter {
  limit;
  windowMs;
  times = new Map();

  constructor(limit, windowMs) {
    this.limit = limit;
    this.windowMs = windowMs;
  }

  allow(client, nowMs) {
    if (this.remaining(client, nowMs) <= 0) return false;
    this.times.get(client)?.push(nowMs);
    return true;
  }

  remaining(client, nowMs) {
    const times = (this.times.get(client) ?? []).filter((each) => each + this.windowMs > nowMs);
    this.times.set(client, times);
    return this.limit - times.length;
  }
}
