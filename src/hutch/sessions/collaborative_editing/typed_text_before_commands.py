"""Writes what people have typed in editors to the files before a line is entered in a terminal.

The command of that line may read them. Other keys never wait.
"""

import asyncio
from collections.abc import Callable

from hutch.sessions.collaborative_editing.open_documents import Documents
from hutch.system.lazy_dataclass import dataclass

ENTER = (b"\r", b"\n")
SAVE_TIMEOUT_S = 10.0  # a terminal must not wait longer for a file that cannot be written


@dataclass(frozen=True, slots=True)
class TypedText:
    """The unsaved text of one session; `documents` are those that are open now."""

    documents: Callable[[], Documents | None]

    def is_unsaved_at(self, data: bytes) -> bool:
        """True if these keys enter a line, and there is unsaved text."""
        if not any(key in data for key in ENTER):
            return False
        documents = self.documents()
        return documents is not None and documents.has_unsaved_text

    async def save(self) -> None:
        if (documents := self.documents()) is not None:
            saving = asyncio.ensure_future(documents.save())
            saving.add_done_callback(_note_end)
            await asyncio.wait([saving], timeout=SAVE_TIMEOUT_S)


def _note_end(saving: asyncio.Task[None]) -> None:
    """Mark an error as retrieved: the document has told its editors."""
    if not saving.cancelled():
        saving.exception()
