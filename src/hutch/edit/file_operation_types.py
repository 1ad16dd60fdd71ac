"""Changes of files: operations, their results, and the interface that performs them.

Paths are relative to the workspace, `/`-separated, as the file system has them
(`os.fsdecode`). A hash is the SHA-256 of a file's content in hex.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol

from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class FileChange:
    """The change of one file."""

    path: str
    kind: Literal["created", "modified", "deleted", "moved"]
    before: str | None  # hash; for a move, that of the source
    after: str | None
    moved_from: str | None = None


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """The file that a change has left at a path: its content, or where that is stored."""

    mode: int  # file type and permissions
    data: bytes = b""
    blob: bytes = b""  # of the snapshots; empty: `data` is the content


@dataclass(frozen=True, slots=True)
class Announcement:
    """Changes as their author made them, whatever another process did to the files since. Paths have no
    links."""

    changes: Sequence[FileChange] = ()
    written: Mapping[str, WrittenFile] = field(default_factory=dict)  # by path, without moves


@dataclass(frozen=True, slots=True)
class Write:
    """Write this content to a file."""

    path: str
    data: bytes
    mode: int | None  # permission bits; None keeps them, or uses the default for a new file
    before: str | None  # the hash it must still have; None: it must not exist


@dataclass(frozen=True, slots=True)
class Move:
    """Move a file, perhaps with new content; it keeps its mode."""

    path: str
    to: str
    data: bytes | None  # None: unchanged
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
    """The files that edits apply to: read one file, change several or none."""

    def read_bytes(self, path: str) -> tuple[bytes, int]:
        """Content and `st_mode`; NotFound, Denied, or BadRequest for a special or too large file."""
        ...

    def change(self, operations: Sequence[Operation]) -> list[FileChange]:
        """All of these changes in order, or none; Conflict when a `before` or `replaces` does not match."""
        ...
