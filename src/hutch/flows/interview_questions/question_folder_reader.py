"""Reads all files of a question's folder, which may come from anywhere.

Links are refused, so nothing outside of the folder is read. Numbers and sizes are limited.
"""

import os
import stat
from pathlib import Path

from hutch.domain.errors import BadRequest, HutchError, LimitReached, NotFound
from hutch.domain.one_line_text import echo
from hutch.domain.user_given_starter_files import StarterFile
from hutch.snapshots.confined_directory import to_hutch_error

MAX_FILES = 2000
MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 12
IGNORED = frozenset({".git", ".gitignore", "__pycache__", ".pytest_cache", "node_modules", ".DS_Store"})
OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a fifo must not block

QuestionFiles = dict[str, StarterFile]


def read_folder(folder: Path) -> QuestionFiles:
    """All files by their paths with `/`, sorted. Blocks the thread."""
    try:
        fd = os.open(folder, OPEN | os.O_DIRECTORY)
    except FileNotFoundError:
        raise NotFound(f"There is no folder {folder}.") from None
    except NotADirectoryError:
        raise BadRequest(f"{folder} is not the folder of a question.") from None
    except OSError as error:
        raise to_hutch_error(error, str(folder)) from None
    reader = _Reader(folder)
    try:
        reader.read(fd, "", 0)
    finally:
        os.close(fd)
    return dict(sorted(reader.files.items()))


class FileBudget:
    """Counts files and bytes of one question, and refuses too many."""

    def __init__(self, place: str) -> None:
        self._place, self._files, self._bytes = place, 0, 0

    @property
    def remaining_bytes(self) -> int:
        return MAX_BYTES - self._bytes

    def add(self, size: int) -> None:
        self._files, self._bytes = self._files + 1, self._bytes + size
        if self._files > MAX_FILES:
            raise LimitReached(
                f"{self._place} has more than {MAX_FILES} files, the maximum of a question.",
                limit="question_files",
            )
        if self._bytes > MAX_BYTES:
            raise LimitReached(
                f"{self._place} has more than {MAX_BYTES >> 20} MiB, the maximum of a question.",
                limit="question_bytes",
            )


class _Reader:
    def __init__(self, folder: Path) -> None:
        self.files: QuestionFiles = {}
        self._folder, self._budget = folder, FileBudget(str(folder))

    def read(self, fd: int, above: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise LimitReached(
                f"{self._folder} has folders more than {MAX_DEPTH} deep.", limit="question_depth"
            )
        for name in sorted(os.listdir(fd)):
            if name in IGNORED:
                continue
            path = f"{above}{name}"
            try:
                below = os.open(name, OPEN, dir_fd=fd)
            except OSError as error:
                raise self._refusal(path, error) from None
            try:
                self._read_entry(below, path, depth)
            finally:
                os.close(below)

    def _read_entry(self, fd: int, path: str, depth: int) -> None:
        found = os.fstat(fd)
        if stat.S_ISDIR(found.st_mode):
            self.read(fd, f"{path}/", depth + 1)
        elif stat.S_ISREG(found.st_mode):
            self._budget.add(found.st_size)
            with os.fdopen(os.dup(fd), "rb") as file:
                content = file.read(found.st_size + 1)
            if len(content) > found.st_size:
                raise BadRequest(f"{self._folder}/{path} is growing while it is read.")
            self.files[path] = StarterFile(content, executable=bool(found.st_mode & stat.S_IXUSR))
        else:
            raise BadRequest(f"{self._folder}: {echo(path, 200)} is not a file. Remove it.")

    def _refusal(self, path: str, error: OSError) -> HutchError:
        link = os.path.islink(self._folder / path)  # noqa: PTH114 - only for the message
        if link:
            return BadRequest(
                f"{self._folder}: {echo(path, 200)} is a link. A question holds files only: copy the target."
            )
        return to_hutch_error(error, f"{self._folder}/{path}")
