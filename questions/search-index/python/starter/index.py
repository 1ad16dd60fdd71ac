"""A search index for notes, in memory."""

from tokenizer import words


class SearchIndex:
    def add(self, id: str, text: str) -> None:
        """Add a note, or replace the one with this id."""
        raise NotImplementedError(words)

    def remove(self, id: str) -> bool:
        """Remove a note; returns True if there was one."""
        raise NotImplementedError

    def search(self, query: str) -> list[str]:
        """The ids of the notes that contain every word of the query, the best first."""
        raise NotImplementedError
