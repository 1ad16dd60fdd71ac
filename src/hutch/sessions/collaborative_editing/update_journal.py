"""Keeps what was typed into a document on disk, from the moment it arrives.

A server that is killed loses nothing, and clients that come back find the same document. The file begins
with a line of JSON and the state at the last save. Records follow, each with its kind and length: an update,
the author of the updates after it, or the hash of a version that is about to be written to the file, with
its updates if it lacks some.
"""

import os
import struct
from dataclasses import asdict
from pathlib import Path
from typing import Self

import orjson

from hutch.system.atomic_file import replace_file
from hutch.system.lazy_dataclass import dataclass

HEAD = struct.Struct(">cI")
UPDATE, AUTHOR, WRITE = b"u", b"a", b"w"
Record = tuple[bytes, bytes]
"""The kind, and the content."""


@dataclass(frozen=True, slots=True)
class Header:
    """`epoch` names this document: updates of another one must not be merged into it."""

    epoch: str
    path: str
    sha256: str | None  # of the file at the last save; None if there was no file
    newline: str = "\n"


@dataclass(slots=True)
class Journal:
    place: Path
    header: Header
    size: int = 0  # of the records
    _fd: int = -1

    @classmethod
    def create(cls, place: Path, header: Header, saved: bytes) -> Self:
        """Start over with the state of a save. Blocks the thread."""
        place.parent.mkdir(mode=0o700, exist_ok=True)
        line = orjson.dumps(asdict(header)) + b"\n"
        replace_file(place, line + HEAD.pack(UPDATE, len(saved)) + saved, mode=0o600)
        return cls(place, header)._opened()

    @classmethod
    def open(cls, place: Path) -> tuple[Self, list[Record]] | None:
        """The journal and its records, of which the first is the saved state; None if there is none, or none
        that can be read. A record that was cut short by a crash is dropped. Blocks the thread."""
        try:
            data = place.read_bytes()
        except FileNotFoundError:
            return None
        line, _, rest = data.partition(b"\n")
        try:
            header = Header(**orjson.loads(line))
        except (orjson.JSONDecodeError, TypeError):
            return None
        records: list[Record] = []
        at = 0
        while at + HEAD.size <= len(rest):
            kind, length = HEAD.unpack_from(rest, at)
            end = at + HEAD.size + length
            if end > len(rest):
                break
            records.append((kind, rest[at + HEAD.size : end]))
            at = end
        if not records:
            return None
        os.truncate(place, len(line) + 1 + at)
        return cls(place, header, at)._opened(), records

    def _opened(self) -> Self:
        self._fd = os.open(self.place, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        return self

    def add(self, update: bytes, kind: bytes = UPDATE) -> None:
        """One write to the page cache: quick, and kept when this process is killed."""
        os.write(self._fd, HEAD.pack(kind, len(update)) + update)
        self.size += len(update)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
