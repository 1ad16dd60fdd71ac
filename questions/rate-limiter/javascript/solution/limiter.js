/** The times of the requests that count, the oldest first. `first` is the position of the oldest. */
class Times {
  values = [];
  first = 0;

  get count() {
    return this.values.length - this.first;
  }

  add(time) {
    this.values.push(time);
  }

  /** Forget times up to this one. Arrays are cut rarely, because that copies them. */
  dropUpTo(time) {
    while (this.first < this.values.length && this.values[this.first] <= time) this.first++;
    if (this.first > 64 && this.first * 2 > this.values.length) {
      this.values = this.values.slice(this.first);
      this.first = 0;
    }
  }
}

/** Limits how many requests a client may send in a sliding window of time. */
export class RateLimiter {
  limit;
  windowMs;
  counted = new Map();

  constructor(limit, windowMs) {
    this.limit = limit;
    this.windowMs = windowMs;
  }

  /** Counts the request and returns true, or returns false if the client must wait. */
  allow(client, nowMs) {
    if (this.remaining(client, nowMs) === 0) return false;
    const times = this.counted.get(client) ?? new Times();
    times.add(nowMs);
    this.counted.set(client, times);
    return true;
  }

  /** The number of requests that would be allowed at this moment. */
  remaining(client, nowMs) {
    const times = this.counted.get(client);
    if (!times) return this.limit;
    times.dropUpTo(nowMs - this.windowMs);
    return this.limit - times.count;
  }
}
