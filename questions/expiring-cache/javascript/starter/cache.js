// A cache with a limited number of values, each for a limited time.

import { Entries } from "./entries.js";

export class ExpiringCache {
  capacity;
  entries = new Entries();

  constructor(capacity) {
    this.capacity = capacity;
  }

  /** Stores a value until `nowMs + ttlMs`. */
  put(key, value, ttlMs, nowMs) {
    const entry = this.entries.byKey.get(key);
    if (entry) {
      entry.value = value;
      return;
    }
    if (this.entries.byKey.size >= this.capacity) this.entries.removeOldest();
    this.entries.add(key, value, nowMs + ttlMs);
  }

  /** The value, or null if there is none or it has expired. */
  get(key, nowMs) {
    const entry = this.entries.byKey.get(key);
    if (!entry || nowMs > entry.expiresMs) return null;
    return entry.value;
  }

  /** The number of values that have not expired. */
  size(nowMs) {
    return [...this.entries.byKey.values()].filter((entry) => nowMs < entry.expiresMs).length;
  }
}
