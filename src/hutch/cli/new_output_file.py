"""A new file that appears when it is complete: an error or a killed process leaves nothing."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from hutch.domain.errors import BadRequest, Conflict, LimitReached, NotFound, Unavailable

WITHOUT_NAME = os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC
NOT_SUPPORTED = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)


@contextmanager
def new_output_file(path: Path) -> Iterator[IO[bytes]]:
    """A file for its owner only. It gets its name at the end of the block, and never replaces another."""
    if os.path.lexists(path):
        what = (
            "is a directory. Give the path of a file in it"
            if path.is_dir()
            else "exists. Choose another name"
        )
        raise (BadRequest if path.is_dir() else Conflict)(f"{path} {what}.")
    if not path.parent.is_dir():
        raise NotFound(f"The folder {path.parent} does not exist. Create it first.")
    try:
        with _draft(path) as (file, name):
            yield file
            file.flush()
            os.fsync(file.fileno())
            _give_name(file, name, path)
    except FileExistsError:
        raise Conflict(f"{path} exists. Choose another name.") from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise LimitReached(
                f"The disk is full; {path} was not written. Free some space, or choose another place.",
                limit="disk",
            ) from None
        raise Unavailable(f"{path} could not be written ({error.strerror}). Choose another path.") from None


@contextmanager
def _draft(path: Path) -> Iterator[tuple[IO[bytes], str]]:
    """A file without a name, or where the file system has none, with a hidden one."""
    name = ""
    try:
        descriptor = os.open(path.parent, WITHOUT_NAME, 0o600)
    except OSError as error:
        if error.errno not in NOT_SUPPORTED:
            raise
        descriptor, name = tempfile.mkstemp(prefix=".hutch-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file, name
    finally:
        if name:
            with suppress(FileNotFoundError):
                os.unlink(name)  # noqa: PTH108


def _give_name(file: IO[bytes], name: str, path: Path) -> None:
    if name:
        os.link(name, path)
        return
    place = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:  # only with a directory's descriptor does Python use linkat, which follows the link of /proc
        os.link(f"/proc/self/fd/{file.fileno()}", path.name, dst_dir_fd=place, follow_symlinks=True)
        os.fsync(place)
    finally:
        os.close(place)
