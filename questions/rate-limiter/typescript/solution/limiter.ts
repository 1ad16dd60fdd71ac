/** The times of the requests that count, the oldest first. `first` is the position of the oldest. */
class Times {
  values: number[] = [];
  first = 0;

  get count(): number {
    return this.values.length - this.first;
  }

  add(time: number): void {
    this.values.push(time);
  }

  /** Forget times up to this one. Arrays are cut rarely, because that copies them. */
  dropUpTo(time: number): void {
    while (this.first < this.values.length && this.values[this.first] <= time) this.first++;
    if (this.first > 64 && this.first * 2 > this.values.length) {
      this.values = this.values.slice(this.first);
      this.first = 0;
    }
  }
}

/** Limits how many requests a client may send in a sliding window of time. */
export class RateLimiter {
  limit: number;
  windowMs: number;
  counted: Map<string, Times> = new Map();

  constructor(limit: number, windowMs: number) {
    this.limit = limit;
    this.windowMs = windowMs;
  }

  /** Counts the request and returns true, or returns false if the client must wait. */
  allow(client: string, nowMs: number): boolean {
    if (this.remaining(client, nowMs) === 0) return false;
    const times = this.counted.get(client) ?? new Times();
    times.add(nowMs);
    this.counted.set(client, times);
    return true;
  }

  /** The number of requests that would be allowed at this moment. */
  remaining(client: string, nowMs: number): number {
    const times = this.counted.get(client);
    if (!times) return this.limit;
    times.dropUpTo(nowMs - this.windowMs);
    return this.limit - times.count;
  }
}
