"""The TASKS.md of a repository on disk, and its text after the last sync.

That text is kept in Hutch's own directory, one for each file and repository, so that each clone has its own.
"""

import hashlib
import os
import stat
from pathlib import Path

from hutch.domain.canonical_repository_name import repository_name
from hutch.domain.errors import BadRequest
from hutch.system.atomic_file import replace_file

DEFAULT_FILE = "docs/TASKS.md"
MAX_BYTES = 8 << 20


class TasksFileOnDisk:
    """A file of tasks. Bytes that are not UTF-8 survive."""

    def __init__(self, path: Path, bases: Path, repository: str) -> None:
        self.path = path
        # Another repository may be cloned to the same place later.
        place = os.fsencode(path.resolve()) + b"\0" + os.fsencode(repository_name(repository))
        name = hashlib.sha256(place).hexdigest()
        self._base = bases / f"{name}.md"

    def read(self) -> str:
        """The text; empty if there is no file."""
        try:
            found = self.path.lstat()
        except FileNotFoundError:
            return ""
        if not stat.S_ISREG(found.st_mode):
            raise BadRequest(f"{self.path} is not a regular file. Name the file itself: --file")
        if found.st_size > MAX_BYTES:
            raise BadRequest(f"{self.path} is over {MAX_BYTES >> 20} MiB. Split it.")
        return _decoded(self.path.read_bytes())

    def exists(self) -> bool:
        return self.path.exists()

    def base(self) -> str:
        """The text after the last sync; empty if there was none."""
        try:
            return _decoded(self._base.read_bytes())
        except FileNotFoundError:
            return ""

    def write(self, old: str, new: str) -> bool:
        """Replace the text; False if the file was changed since `old` was read."""
        if old != new:
            if self.read() != old:
                return False
            self.path.parent.mkdir(parents=True, exist_ok=True)
            mode = stat.S_IMODE(self.path.stat().st_mode) if self.path.exists() else None
            replace_file(self.path, _encoded(new))
            if mode is not None:
                self.path.chmod(mode)
        self._base.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(self._base, _encoded(new), mode=0o600)
        return True

    def stamp(self) -> tuple[int, int]:
        """Changes when the file does."""
        try:
            found = self.path.stat()
        except OSError:
            return 0, 0
        return found.st_mtime_ns, found.st_size


def _decoded(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
