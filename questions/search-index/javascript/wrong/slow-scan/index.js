// Right, but looks at every note for each search.

import { words } from "./tokenizer.js";

export class SearchIndex {
  texts = new Map();

  add(id, text) {
    this.texts.set(id, text);
  }

  remove(id) {
    return this.texts.delete(id);
  }

  search(query) {
    const wanted = [...new Set(words(query))];
    if (wanted.length === 0) return [];
    const found = [];
    for (const [id, text] of this.texts) {
      const own = words(text);
      if (!wanted.every((word) => own.includes(word))) continue;
      found.push({ id, count: own.filter((word) => wanted.includes(word)).length });
    }
    found.sort((one, other) => other.count - one.count || (one.id < other.id ? -1 : 1));
    return found.map((each) => each.id);
  }
}
