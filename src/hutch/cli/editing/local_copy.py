"""The local copy of a session's file, which an editor changes.

It is in the state directory of the installation, so neither a crash nor a closed terminal loses what the
user has saved. Beside it are the versions that the editor may have loaded, so the next `hutch edit` of the
same file continues from there.
"""

import base64
import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from hutch.cli.editing.session_file_access import sha256
from hutch.domain.errors import Conflict
from hutch.system.atomic_file import replace_file
from hutch.system.file_lock import try_lock
from hutch.workspace.files.file_change_syscalls import Syscalls

VERSIONS, LOCK = "versions.json", "lock"
Version = bytes | None  # None: no file


class LocalCopy:
    """A private directory with the file and its versions. The methods block for a moment."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory
        self.path = directory / "file" / name
        self._lock: int | None = None

    @classmethod
    def of(cls, edits: Path, session_id: str, path: str) -> "LocalCopy":
        # Short, because editors show the whole path on one line.
        return cls(edits / sha256(f"{session_id}/{path}".encode())[:12], PurePosixPath(path).name)

    def open(self) -> list[Version] | None:
        """Lock the copy for this process; returns the versions of an interrupted edit, if there was one."""
        self.directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for directory in (self.directory, self.path.parent):
            directory.mkdir(mode=0o700, exist_ok=True)
        self._lock = try_lock(self.directory / LOCK)
        if self._lock is None:
            raise Conflict(f"{self.path} is open in another `hutch edit`. Close that one first.")
        try:
            stored = json.loads((self.directory / VERSIONS).read_bytes())
            return [None if each is None else base64.b64decode(each) for each in stored]
        except (OSError, ValueError, TypeError):
            return None

    def close(self, *, keep: bool) -> None:
        """Release the copy, and remove it unless it is kept."""
        if not keep:
            shutil.rmtree(self.directory, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def read(self) -> Version:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:  # not saved yet, or just being replaced by the editor
            return None

    def stamp(self) -> object:
        """A value that changes when the editor writes the file."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def store_versions(self, versions: Sequence[Version]) -> None:
        stored = [None if each is None else base64.b64encode(each).decode() for each in versions]
        replace_file(self.directory / VERSIONS, json.dumps(stored), mode=0o600, durable=True)

    def replace(self, data: bytes, *, over: Version) -> bool:
        """Replace the content if it is still `over`; False if the editor has saved something else."""
        draft = self.directory / "draft"
        replace_file(draft, data, mode=0o600)
        if over is None:
            try:
                os.link(draft, self.path)  # fails if the editor has created it
            except FileExistsError:
                return False
            finally:
                draft.unlink()
            return True
        fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(OSError):  # the permissions that the editor gave it
                draft.chmod(self.path.stat().st_mode & 0o777)
            name = f"file/{self.path.name}"
            try:
                # Both exist at all times, and what was replaced can be compared: a save is never lost.
                Syscalls().exchange(fd, draft.name, fd, name)
            except FileNotFoundError:
                return False
            if draft.read_bytes() == over:
                return True
            Syscalls().exchange(fd, draft.name, fd, name)
            return False
        finally:
            os.close(fd)
            draft.unlink(missing_ok=True)
