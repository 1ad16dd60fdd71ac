/** Limits how many requests a client may send in a sliding window of time. */
export class RateLimiter {
  limit: number;
  windowMs: number;

  constructor(limit: number, windowMs: number) {
    this.limit = limit;
    this.windowMs = windowMs;
  }

  /** Counts the request and returns true, or returns false if the client must wait. */
  allow(client: string, nowMs: number): boolean {
    throw new Error("not written yet");
  }

  /** The number of requests that would be allowed at this moment. */
  remaining(client: string, nowMs: number): number {
    throw new Error("not written yet");
  }
}
