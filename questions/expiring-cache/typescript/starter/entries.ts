// The entries of a cache, and which of them was used least recently.

export interface Entry {
  key: string;
  value: string;
  expiresMs: number;
  used: number; // the number of the use, higher is later
}

export class Entries {
  byKey: Map<string, Entry> = new Map();
  uses = 0;

  nextUse(): number {
    this.uses += 1;
    return this.uses;
  }

  add(key: string, value: string, expiresMs: number): void {
    this.byKey.set(key, { key, value, expiresMs, used: this.nextUse() });
  }

  /** Removes the entry that was used least recently. */
  removeOldest(): void {
    let oldest: Entry | undefined;
    for (const entry of this.byKey.values()) {
      if (!oldest || entry.used < oldest.used) oldest = entry;
    }
    if (oldest) this.byKey.delete(oldest.key);
  }
}
