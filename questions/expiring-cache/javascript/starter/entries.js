// The entries of a cache, and which of them was used least recently.

export class Entries {
  byKey = new Map();
  uses = 0;

  nextUse() {
    this.uses += 1;
    return this.uses;
  }

  add(key, value, expiresMs) {
    this.byKey.set(key, { key, value, expiresMs, used: this.nextUse() });
  }

  /** Removes the entry that was used least recently. */
  removeOldest() {
    let oldest;
    for (const entry of this.byKey.values()) {
      if (!oldest || entry.used < oldest.used) oldest = entry;
    }
    if (oldest) this.byKey.delete(oldest.key);
  }
}
