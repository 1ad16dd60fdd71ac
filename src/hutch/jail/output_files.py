"""The files with what a jail's commands printed, which together may take only so much room.

When it runs out, the oldest of commands that have ended go; those of commands
that still run are cut, and their results say so.
"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

COMMANDS = 4  # that can have a file of the greatest size


class OutputFiles:
    """Those of one jail, in a directory of its own that is made when it is needed."""

    def __init__(self, directory: Callable[[], Path], most_bytes: int) -> None:
        self._directory = directory
        self._free = most_bytes
        self._ended: dict[Path, int] = {}  # path: bytes, the oldest first
        self._number = 0

    def begin(self) -> "OutputFile":
        self._number += 1
        return OutputFile(self, self._directory() / f"output-{self._number}")

    def take(self, wanted: int) -> int:
        """As much of that room as can be had."""
        while self._free < wanted and self._ended:
            oldest = next(iter(self._ended))
            self._free += self._ended.pop(oldest)
            with contextlib.suppress(FileNotFoundError):
                oldest.unlink()
        given = min(wanted, self._free)
        self._free -= given
        return given

    def end(self, path: Path, size: int) -> None:
        self._ended[path] = size


class OutputFile:
    """One that is being written."""

    def __init__(self, files: OutputFiles, path: Path) -> None:
        self.path = path
        self._files = files
        self._size = 0
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def write(self, data: bytes) -> bool:
        """Whether there was room for all of it."""
        part = data[: self._files.take(len(data))]
        self._size += len(part)
        if part:
            os.write(self._fd, part)
        return len(part) == len(data)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._files.end(self.path, self._size)
