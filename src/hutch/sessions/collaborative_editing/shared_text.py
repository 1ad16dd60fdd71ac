"""The text of a file that several people edit at once, as a Yjs document.

There are two replicas: the text that people see, and the version on disk. A save brings the first into the
second. A program that changes the file edits the second, and its edit is merged into the first as that of
one more person, so nothing that was typed meanwhile is lost.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Self

from hutch.domain.errors import BadRequest, LimitReached
from hutch.sessions.collaborative_editing.text_difference import Replacement
from hutch.sessions.collaborative_editing.yjs_update_validation import Parts, count_parts

if TYPE_CHECKING:
    from pycrdt import Doc, Text

ROOT = "content"
# The library may compare each struct of an update with each of the text, and moves those behind a deleted
# range. Either limit is about 0.3 s of processor time in which the server does nothing else.
MAX_COMPARED_STRUCTS = 10**7
MAX_MOVED_STRUCTS = 10**9


class SharedText:
    """Not safe for several threads at once."""

    def __init__(self) -> None:
        self._shared = _empty()
        self._disk = _empty()
        self._structs = 0  # at most so many does the shared text have

    @classmethod
    def of(cls, text: str) -> Self:
        made = cls()
        made.change_on_disk([(0, 0, text)])
        return made

    @classmethod
    def restored(cls, saved: bytes, updates: Iterable[bytes]) -> Self:
        """The text as it was: `saved` is the state at the last save, `updates` came after it."""
        made = cls()
        made._structs = count_parts(saved, ROOT).structs
        made._disk.apply_update(saved)
        made._shared.apply_update(saved)
        for update in updates:
            made._structs += sum(count_parts(update, ROOT))
            made._shared.apply_update(update)
        return made

    @property
    def text(self) -> str:
        return str(self._shared[ROOT])

    @property
    def text_on_disk(self) -> str:
        return str(self._disk[ROOT])

    @property
    def is_saved(self) -> bool:
        return self.text == self.text_on_disk

    @property
    def state(self) -> bytes:
        """The state vector: what a peer compares to learn which updates are missing."""
        return self._shared.get_state()

    def updates_since(self, state: bytes | None = None) -> bytes:
        """All that a peer with this state vector lacks."""
        try:
            return self._shared.get_update(state)
        except ValueError:
            raise BadRequest("This is not the state of a Yjs document.") from None

    def saved_state(self) -> bytes:
        return self._disk.get_update()

    def apply(self, update: bytes) -> None:
        new = count_parts(update, ROOT)
        if self._is_costly(new):
            self._structs = count_parts(self._shared.get_update(), ROOT).structs  # many were joined
            if self._is_costly(new):
                raise LimitReached(
                    f"An update with {sum(new)} parts is too large for this document. Send smaller ones, or "
                    "close the file in all windows and open it again.",
                    limit="document parts",
                )
        try:
            self._shared.apply_update(update)
        except ValueError:
            raise BadRequest("This is not an update of a Yjs document.") from None
        self._structs += sum(new)

    def _is_costly(self, new: Parts) -> bool:
        after = self._structs + sum(new)
        return new.structs * after > MAX_COMPARED_STRUCTS or new.deleted_ranges * after > MAX_MOVED_STRUCTS

    def mark_saved(self, updates: bytes) -> None:
        """Note that the text is on disk; `updates` are those of `unsaved` at the time it was written."""
        self._disk.apply_update(updates)

    def text_after(self, updates: bytes) -> str:
        """The text on disk with updates of `unsaved`, of now or earlier."""
        copy = _empty()
        copy.apply_update(self._disk.get_update())
        copy.apply_update(updates)
        return str(copy[ROOT])

    def unsaved(self) -> bytes:
        return self._shared.get_update(self._disk.get_state())

    def change_on_disk(self, replacements: Sequence[Replacement]) -> bytes:
        """Note how a program changed the file. Returns the update for all peers."""
        before = self._disk.get_state()
        disk = self._disk[ROOT]
        for start, end, replacement in reversed(replacements):
            if end > start:
                del disk[start:end]
            if replacement:
                disk.insert(start, replacement)
        update = self._disk.get_update(before)
        self._shared.apply_update(update)
        self._structs += 2 * len(replacements)
        return update


def _empty() -> "Doc[Text]":
    from pycrdt import Doc, Text

    made: Doc[Text] = Doc()
    made[ROOT] = Text()
    return made
