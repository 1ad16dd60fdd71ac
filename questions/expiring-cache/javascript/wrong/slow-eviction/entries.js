// Right, but goes through all entries to find the oldest.

export class Entries {
  byKey = new Map();
  uses = 0;

  set(key, entry) {
    this.uses += 1;
    entry.used = this.uses;
    this.byKey.set(key, entry);
  }

  removeOldest() {
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
