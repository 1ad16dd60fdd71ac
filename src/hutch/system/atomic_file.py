"""Files that are replaced in one step: no reader sees half of one."""

import os
from contextlib import suppress
from pathlib import Path

FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def replace_file(path: Path, content: bytes | str, *, mode: int = 0o666, durable: bool = False) -> None:
    """Replace a file completely or not at all; `durable`: also when the power fails. Blocks the thread.

    The umask applies to `mode`. On failure the old file stays.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)  # left by a process that was killed
    try:
        with os.fdopen(os.open(draft, FLAGS, mode), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise
    if durable:
        sync_directory(path.parent)


def write_private(path: Path, text: str) -> None:
    """Replace a file that only its owner can read; creates its directory. Blocks the thread."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(path, text, mode=0o600)


def sync_directory(path: Path) -> None:
    """Flush the entries of a directory to disk. Blocks the thread."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
