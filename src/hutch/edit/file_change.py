"""Changes of files: what is asked for, what came of it, and where edits are made.

Paths are relative to the workspace, `/`-separated, as the file system has them
(`os.fsdecode`). A hash is the SHA-256 of a file's content in hex.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class FileChange:
    """What became of one file."""

    path: str
    kind: Literal["created", "modified", "deleted", "moved"]
    before: str | None  # hash; of what was moved, when it was
    after: str | None
    moved_from: str | None = None


@dataclass(frozen=True, slots=True)
class Write:
    """Give a file this content."""

    path: str
    data: bytes
    mode: int | None  # permission bits; None keeps them, or gives a new file the usual ones
    before: str | None  # the hash it must still have; None: it must not exist


@dataclass(frozen=True, slots=True)
class Move:
    """Give a file another name, and perhaps other content; its mode comes along."""

    path: str
    to: str
    data: bytes | None  # None: the content as it is
    before: str  # the hash that `path` must still have
    replaces: str | None = None  # the hash that `to` must still have; None: it must not exist
    mode: int | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a file."""

    path: str
    before: str  # the hash it must still have


Operation = Write | Move | Delete


class Writable(Protocol):
    """Where edits are made: reads one file, and changes several, all or none."""

    def read_bytes(self, path: str) -> tuple[bytes, int]:
        """Content and `st_mode`; NotFound, Denied, or BadRequest for what is no file or too large."""
        ...

    def change(self, operations: Sequence[Operation]) -> list[FileChange]:
        """All of these changes in order, or none; Conflict when a `before` or `replaces` does not hold."""
        ...
