/** Counts in fixed periods, which begin anew at multiples of the window. */
export class RateLimiter {
  limit: number;
  windowMs: number;
  counts: Map<string, number> = new Map();

  constructor(limit: number, windowMs: number) {
    this.limit = limit;
    this.windowMs = windowMs;
  }

  allow(client: string, nowMs: number): boolean {
    if (this.remaining(client, nowMs) <= 0) return false;
    const key = this.key(client, nowMs);
    this.counts.set(key, (this.counts.get(key) ?? 0) + 1);
    return true;
  }

  remaining(client: string, nowMs: number): number {
    return this.limit - (this.counts.get(this.key(client, nowMs)) ?? 0);
  }

  key(client: string, nowMs: number): string {
    return `${client} ${Math.floor(nowMs / this.windowMs)}`;
  }
}
