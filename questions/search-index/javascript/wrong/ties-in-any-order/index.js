// Leaves notes with the same number in the order in which they were added.

import { words } from "./tokenizer.js";

export class SearchIndex {
  wordsOf = new Map(); // by note: its words and their numbers
  notesOf = new Map(); // by word: the notes with it

  /** Adds a note, or replaces the one with this id. */
  add(id, text) {
    this.remove(id);
    const counts = new Map();
    for (const word of words(text)) counts.set(word, (counts.get(word) ?? 0) + 1);
    this.wordsOf.set(id, counts);
    for (const word of counts.keys()) {
      const notes = this.notesOf.get(word);
      if (notes) notes.add(id);
      else this.notesOf.set(word, new Set([id]));
    }
  }

  /** Removes a note; returns true if there was one. */
  remove(id) {
    const counts = this.wordsOf.get(id);
    if (!counts) return false;
    this.wordsOf.delete(id);
    for (const word of counts.keys()) {
      const notes = this.notesOf.get(word);
      notes?.delete(id);
      if (notes?.size === 0) this.notesOf.delete(word);
    }
    return true;
  }

  /** The ids of the notes that contain every word of the query, the best first. */
  search(query) {
    const wanted = [...new Set(words(query))];
    const lists = wanted.map((word) => this.notesOf.get(word) ?? new Set());
    if (lists.length === 0) return [];
    const rarest = lists.reduce((one, other) => (other.size < one.size ? other : one));
    const matching = [...rarest].filter((id) => lists.every((each) => each.has(id)));
    const found = matching.map((id) => ({ id, count: this.countOf(id, wanted) }));
    return found.sort((one, other) => other.count - one.count).map((each) => each.id);
  }

  countOf(id, wanted) {
    return wanted.reduce((sum, word) => sum + (this.wordsOf.get(id)?.get(word) ?? 0), 0);
  }
}
