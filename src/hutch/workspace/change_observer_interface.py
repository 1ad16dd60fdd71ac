"""The interface by which a workspace reports the changes of its files."""

from collections.abc import Sequence
from typing import Protocol

from hutch.edit.file_operation_types import FileChange


class ChangeObserver(Protocol):
    """Learns about every change of the files. All methods are called in threads, one at a time."""

    def announce(self, changes: Sequence[FileChange]) -> None:
        """The current actor made these changes, and the next snapshot has them."""
        ...

    def announce_restore(self, number: int, path: str) -> None:
        """The current actor restores a path to a snapshot, and the next snapshots have that."""
        ...

    def settle(self) -> None:
        """No snapshot follows any more for what was announced."""
        ...
