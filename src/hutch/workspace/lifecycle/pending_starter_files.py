"""Starter files of sessions that are not prepared yet.

A session may wait in the queue while the server restarts, so its files are on disk before the session
exists: one private file for each session, removed when its workspace has been written.
"""

import base64
import binascii
import os
import time
from pathlib import Path

import orjson

from hutch.domain.errors import Unavailable
from hutch.domain.ids import SessionId
from hutch.domain.user_given_starter_files import StarterFile, StarterFiles
from hutch.system.atomic_file import replace_file
from hutch.system.lazy_dataclass import dataclass

SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class StagedFiles:
    """The starter files below one directory, by session. The methods block the thread."""

    directory: Path

    def store(self, session_id: SessionId, files: StarterFiles) -> None:
        """Store the files of a session; they survive a crash when this returns."""
        content = {
            path: [base64.b64encode(file.content).decode(), file.executable] for path, file in files.items()
        }
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self._path(session_id), orjson.dumps(content), mode=0o600, durable=True)
        except OSError as error:
            raise Unavailable(f"The starter files cannot be stored in {self.directory}: {error}.") from None

    def read(self, session_id: SessionId) -> dict[str, StarterFile]:
        """The files of a session."""
        try:
            stored = orjson.loads(self._path(session_id).read_bytes())
            return {
                path: StarterFile(base64.b64decode(content), executable)
                for path, (content, executable) in stored.items()
            }
        except (OSError, ValueError, AttributeError, TypeError, binascii.Error) as error:
            raise Unavailable(
                f"The starter files of the session {session_id} cannot be read: {error}. "
                "Create the session again."
            ) from None

    def remove(self, session_id: SessionId) -> None:
        """Remove the files of a session, if there are any."""
        self._path(session_id).unlink(missing_ok=True)

    def stored_before(self, age_s: float) -> list[SessionId]:
        """The sessions whose files were stored at least `age_s` ago. Removes drafts of killed processes."""
        latest, found = time.time() - age_s, []
        try:
            entries = list(os.scandir(self.directory))
        except FileNotFoundError:
            return []
        for entry in entries:
            try:
                if entry.stat(follow_symlinks=False).st_mtime > latest:
                    continue
                if entry.name.startswith("."):  # a draft of `replace_file`
                    Path(entry.path).unlink()
                elif entry.name.endswith(SUFFIX):
                    found.append(SessionId(entry.name.removesuffix(SUFFIX)))
            except FileNotFoundError:  # it was removed meanwhile
                continue
        return found

    def _path(self, session_id: SessionId) -> Path:
        return self.directory / f"{session_id}{SUFFIX}"
