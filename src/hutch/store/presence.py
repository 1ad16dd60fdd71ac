"""Whether the database that a process has open is still the one at its path.

A file that was deleted or moved can still be written to, and what is written is lost with the
process. So its path is compared with it before anything is acknowledged.
"""

from pathlib import Path

from hutch.domain.errors import DataGone


class Presence:
    """The database file at `path`, as it was when this was made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _identify(path)

    def check(self) -> None:
        """Raise `DataGone` when the file is no longer at its path. One look at the file system."""
        found = _identify(self._path)
        if self._file is None or found != self._file:
            happened = "vanished" if found is None else "was replaced by another file"
            raise DataGone(
                f"The database {self._path} {happened} while Hutch was using it; nothing more is written. "
                f"Put {self._path.parent} back, or restore a backup of it, and start Hutch again."
            )


def _identify(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
