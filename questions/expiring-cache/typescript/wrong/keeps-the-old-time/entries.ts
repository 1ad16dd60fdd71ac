// The entries of a cache. A map keeps its keys in the order in which they were added.

export interface Entry {
  value: string;
  expiresMs: number;
}

export class Entries {
  byKey: Map<string, Entry> = new Map(); // the least recently used first

  /** Adds an entry, or replaces it; either is a use. */
  set(key: string, entry: Entry): void {
    this.byKey.delete(key);
    this.byKey.set(key, entry);
  }

  /** Removes the entry that was used least recently. */
  removeOldest(): void {
    const [oldest] = this.byKey.keys();
    this.byKey.delete(oldest);
  }
}
