"""Large payloads, each in a file named by the hash of its content.

The content is the salt and the payload, so the name is the payload hash that
the chain already holds. No two events share a blob, and erasing one is
deleting a file.
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore

from hutch.domain.errors import Unavailable
from hutch.store.chain import SALT_BYTES

OLD = timedelta(hours=1)


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
        for place in (path, path.parent, self._directory):  # obstore itself never syncs
            descriptor = os.open(place, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def get(self, name: str) -> bytes:
        """The payload of a blob, without its salt."""
        try:
            return bytes(obstore.get(self._objects, _key(name)).bytes())[SALT_BYTES:]
        except FileNotFoundError:
            raise Unavailable(
                f"Blob {name} is missing from {self._directory}. Restore it from a backup of that directory."
            ) from None

    def old_names(self) -> Iterator[str]:
        """Every blob that was written a while ago, so that no commit can still be on its way."""
        before = datetime.now(UTC) - OLD
        for page in obstore.list(self._objects):
            for blob in page:
                if blob["last_modified"] < before:
                    yield blob["path"].rpartition("/")[2]

    def delete(self, name: str) -> None:
        """Forget a blob; one that is not there is fine."""
        try:
            obstore.delete(self._objects, _key(name))
        except FileNotFoundError:
            return


def _key(name: str) -> str:
    return f"{name[:2]}/{name}"
