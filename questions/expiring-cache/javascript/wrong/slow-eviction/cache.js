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
    const isNew = !this.entries.byKey.has(key);
    if (isNew && this.entries.byKey.size >= this.capacity) this.entries.removeOldest();
    this.entries.set(key, { value, expiresMs: nowMs + ttlMs });
  }

  /** The value, or null if there is none or it has expired. */
  get(key, nowMs) {
    const entry = this.entries.byKey.get(key);
    if (!entry) return null;
    if (nowMs >= entry.expiresMs) {
      this.entries.byKey.delete(key);
      return null;
    }
    this.entries.set(key, entry);
    return entry.value;
  }

  /** The number of values that have not expired. */
  size(nowMs) {
    return [...this.entries.byKey.values()].filter((entry) => nowMs < entry.expiresMs).length;
  }
}
