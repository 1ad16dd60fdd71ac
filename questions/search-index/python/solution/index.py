"""A search index for notes, in memory."""

from collections import Counter

from tokenizer import words


class SearchIndex:
    def __init__(self) -> None:
        self._words: dict[str, Counter[str]] = {}  # by note: its words and their numbers
        self._notes: dict[str, dict[str, int]] = {}  # by word: the notes with it and the numbers

    def add(self, id: str, text: str) -> None:
        """Add a note, or replace the one with this id."""
        self.remove(id)
        self._words[id] = Counter(words(text))
        for word, count in self._words[id].items():
            self._notes.setdefault(word, {})[id] = count

    def remove(self, id: str) -> bool:
        """Remove a note; returns True if there was one."""
        counts = self._words.pop(id, None)
        if counts is None:
            return False
        for word in counts:
            del self._notes[word][id]
            if not self._notes[word]:
                del self._notes[word]
        return True

    def search(self, query: str) -> list[str]:
        """The ids of the notes that contain every word of the query, the best first."""
        wanted = set(words(query))
        if not wanted or not all(word in self._notes for word in wanted):
            return []
        rarest = min(wanted, key=lambda word: len(self._notes[word]))
        matching = [id for id in self._notes[rarest] if all(word in self._words[id] for word in wanted)]
        return sorted(matching, key=lambda id: (-sum(self._words[id][word] for word in wanted), id))
