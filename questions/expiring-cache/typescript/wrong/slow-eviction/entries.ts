// Right, but goes through all entries to find the oldest.

export interface Entry {
  value: string;
  expiresMs: number;
  used?: number;
}

export class Entries {
  byKey: Map<string, Entry> = new Map();
  uses = 0;

  set(key: string, entry: Entry): void {
    this.uses += 1;
    entry.used = this.uses;
    this.byKey.set(key, entry);
  }

  removeOldest(): void {
    let oldest = "";
    let least = Infinity;
    for (const [key, entry] of this.byKey) {
      if ((entry.used ?? 0) < least) {
        oldest = key;
        least = entry.used ?? 0;
      }
    }
    this.byKey.delete(oldest);
  }
}
