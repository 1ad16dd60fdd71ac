"""Changes that tools and requests have announced, for comparison with what a snapshot shows."""

from collections.abc import Sequence

from hutch.domain.current_actor_and_author import Actor
from hutch.edit.file_operation_types import FileChange


class AnnouncedChanges:
    """Announced changes, by path."""

    def __init__(self, announced: Sequence[tuple[FileChange, Actor]]) -> None:
        self._after: dict[str, str | None] = {}
        self._actors: dict[str, Actor] = {}
        self._directories: list[str] = []
        for change, actor in announced:
            self._after[change.path] = change.after
            self._actors[change.path] = actor
            if change.moved_from is not None:
                self._after[change.moved_from] = None
                self._actors[change.moved_from] = actor
            if change.before is None and change.after is None:  # a directory, or many files below it
                self._directories += [change.path, *([change.moved_from] if change.moved_from else [])]

    def has(self, path: str) -> bool:
        return path in self._after

    def is_match(self, path: str, after: str | None) -> bool:
        return self._after[path] == after

    def actor_above(self, path: str) -> Actor | None:
        """The actor who changed a directory above the path."""
        above = next((each for each in self._directories if path.startswith(f"{each}/")), None)
        return None if above is None else self._actors[above]
