/** Counts in fixed periods, which begin anew at multiples of the window. */
export class RateLimiter {
  limit;
  windowMs;
  counts = new Map();

  constructor(limit, windowMs) {
    this.limit = limit;
    this.windowMs = windowMs;
  }

  allow(client, nowMs) {
    if (this.remaining(client, nowMs) <= 0) return false;
    const key = this.key(client, nowMs);
    this.counts.set(key, (this.counts.get(key) ?? 0) + 1);
    return true;
  }

  remaining(client, nowMs) {
    return this.limit - (this.counts.get(this.key(client, nowMs)) ?? 0);
  }

  key(client, nowMs) {
    return `${client} ${Math.floor(nowMs / this.windowMs)}`;
  }
}
