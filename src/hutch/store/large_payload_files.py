"""Large payloads, each in a file named by the hash of its content.

The content is the salt and the payload, so the name is the payload hash that
the chain already holds. No two events share a blob, and erasing one is
deleting a file.
"""

import os
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore

from hutch.domain.errors import RecordDamaged
from hutch.store.hash_chain import SALT_BYTES

MIN_UNUSED_AGE_S = 3600  # by then no commit can still be pending


class BlobMissing(RecordDamaged):
    """The file does not exist: it was erased a moment ago, or lost."""


class Blobs:
    """Content-addressed blobs in a directory. Blocking: call it from a thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._objects = LocalStore(directory)

    def put(self, name: str, salt: bytes, payload: bytes) -> None:
        """Store a blob; when this returns it survives a power cut."""
        key = _key(name)
        try:
            obstore.put(self._objects, key, salt + payload)
        except BaseError as error:
            raise OSError(str(error)) from error
        path = self._directory / key
        path.chmod(0o600)
        for place in (path, path.parent, self._directory):  # obstore itself never syncs
            descriptor = os.open(place, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def get(self, name: str) -> bytes:
        """The payload of a blob, without its salt."""
        try:
            content = bytes(obstore.get(self._objects, _key(name)).bytes())
        except FileNotFoundError:
            raise BlobMissing(
                f"Blob {name} is missing from {self._directory}. Restore it from a backup of that directory."
            ) from None
        except BaseError as error:
            raise OSError(str(error)) from error
        if sha256(content).hexdigest() != name:
            raise RecordDamaged(f"Blob {name} in {self._directory} is damaged. Restore it from a backup.")
        return content[SALT_BYTES:]

    def delete(self, name: str) -> None:
        """Delete a blob; a missing one is not an error."""
        try:
            obstore.delete(self._objects, _key(name))
        except FileNotFoundError:
            return
        except BaseError as error:
            raise OSError(str(error)) from error

    def delete_old(self, unwanted: Callable[[str], bool]) -> int:
        """Delete unused blobs and drafts older than an hour; returns how many."""
        deleted = 0
        for path in self._directory.rglob("*"):
            # The name of a draft is not a hash, so no event refers to it.
            if (
                path.is_file()
                and path.stat().st_mtime < time.time() - MIN_UNUSED_AGE_S
                and unwanted(path.name)
            ):
                path.unlink(missing_ok=True)
                deleted += 1
        return deleted


def _key(name: str) -> str:
    return f"{name[:2]}/{name}"
