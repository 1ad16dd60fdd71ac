// A search index for notes, in memory.

import { words } from "./tokenizer.js";

export class SearchIndex {
  /** Adds a note, or replaces the one with this id. */
  add(id, text) {
    throw new Error(`not written yet; it will use ${words.name}`);
  }

  /** Removes a note; returns true if there was one. */
  remove(id) {
    throw new Error("not written yet");
  }

  /** The ids of the notes that contain every word of the query, the best first. */
  search(query) {
    throw new Error("not written yet");
  }
}
