/** Right, but each request looks at all requests of the window. */
export class RateLimiter {
  limit: number;
  windowMs: number;
  times: Map<string, number[]> = new Map();

  constructor(limit: number, windowMs: number) {
    this.limit = limit;
    this.windowMs = windowMs;
  }

  allow(client: string, nowMs: number): boolean {
    if (this.remaining(client, nowMs) <= 0) return false;
    this.times.get(client)?.push(nowMs);
    return true;
  }

  remaining(client: string, nowMs: number): number {
    const times = (this.times.get(client) ?? []).filter((each) => each + this.windowMs > nowMs);
    this.times.set(client, times);
    return this.limit - times.length;
  }
}
