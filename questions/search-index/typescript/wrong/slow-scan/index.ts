// Right, but looks at every note for each search.

import { words } from "./tokenizer.ts";

export class SearchIndex {
  texts: Map<string, string> = new Map();

  add(id: string, text: string): void {
    this.texts.set(id, text);
  }

  remove(id: string): boolean {
    return this.texts.delete(id);
  }

  search(query: string): string[] {
    const wanted = [...new Set(words(query))];
    if (wanted.length === 0) return [];
    const found: { id: string; count: number }[] = [];
    for (const [id, text] of this.texts) {
      const own = words(text);
      if (!wanted.every((word) => own.includes(word))) continue;
      found.push({ id, count: own.filter((word) => wanted.includes(word)).length });
    }
    found.sort((one, other) => other.count - one.count || (one.id < other.id ? -1 : 1));
    return found.map((each) => each.id);
  }
}
