/** Limits how many requests a client may send in a sliding window of time. */
export class RateLimiter {
  limit;
  windowMs;

  constructor(limit, windowMs) {
    this.limit = limit;
    this.windowMs = windowMs;
  }

  /** Counts the request and returns true, or returns false if the client must wait. */
  allow(client, nowMs) {
    throw new Error("not written yet");
  }

  /** The number of requests that would be allowed at this moment. */
  remaining(client, nowMs) {
    throw new Error("not written yet");
  }
}
