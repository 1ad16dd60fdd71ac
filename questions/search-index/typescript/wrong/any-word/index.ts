// Finds notes with any of the words.

import { words } from "./tokenizer.ts";

type Counts = Map<string, number>;

export class SearchIndex {
  wordsOf: Map<string, Counts> = new Map(); // by note: its words and their numbers
  notesOf: Map<string, Set<string>> = new Map(); // by word: the notes with it

  /** Adds a note, or replaces the one with this id. */
  add(id: string, text: string): void {
    this.remove(id);
    const counts: Counts = new Map();
    for (const word of words(text)) counts.set(word, (counts.get(word) ?? 0) + 1);
    this.wordsOf.set(id, counts);
    for (const word of counts.keys()) {
      const notes = this.notesOf.get(word);
      if (notes) notes.add(id);
      else this.notesOf.set(word, new Set([id]));
    }
  }

  /** Removes a note; returns true if there was one. */
  remove(id: string): boolean {
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
  search(query: string): string[] {
    const wanted = [...new Set(words(query))];
    const matching = [...new Set(wanted.flatMap((word) => [...(this.notesOf.get(word) ?? [])]))];
    const found = matching.map((id) => ({ id, count: this.countOf(id, wanted) }));
    return found.sort((one, other) => other.count - one.count || (one.id < other.id ? -1 : 1)).map((each) => each.id);
  }

  countOf(id: string, wanted: string[]): number {
    return wanted.reduce((sum, word) => sum + (this.wordsOf.get(id)?.get(word) ?? 0), 0);
  }
}
