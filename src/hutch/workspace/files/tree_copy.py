"""Copies directory trees: bases quickly, directories of users carefully.

Nothing writes to a base, so GNU cp copies it, with shared blocks if the file system
supports that. A user's directory may change during the copy: it is read through
descriptors, links are never followed, and only files, directories and links are
copied, without set-id bits and extended attributes.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import Path

from hutch.domain.errors import BadRequest, Conflict, Unavailable
from hutch.forge.host_process_limits import limit_command, process_group
from hutch.snapshots.confined_directory import Directory, to_hutch_error
from hutch.system.lazy_dataclass import dataclass

MAX_DEPTH = 400
MAX_OPEN_LEVELS = 32  # levels of directories; each takes two descriptors
CHUNK_BYTES = 1 << 20
FICLONE = 0x40049409
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
CP = ("/bin/cp", "--recursive", "--no-dereference", "--no-target-directory")
CP_OPTIONS = ("--preserve=mode,timestamps,links", "--reflink=auto", "--")
REPORT_INTERVAL_FILES = 200
PERMISSIONS = 0o777


async def copy_base(tree: Path, target: Path) -> None:
    """Copy a base's tree to a directory that does not exist yet."""
    # Without owners, which are ours anyway, and extended attributes, which overlayfs would interpret.
    starting = asyncio.create_subprocess_exec(
        *limit_command(*CP, *CP_OPTIONS, tree, target),
        env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    async with process_group(starting) as process:
        _, stderr = await process.communicate()
    if process.returncode != 0:
        line = stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no reason given"]
        raise Unavailable(f"The workspace could not be copied: {line[0][:300]}. Free disk space and retry.")


def can_reflink(directory: Path) -> bool:
    """True if the file system supports copies that share blocks."""
    flags = os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC
    try:
        one, other = os.open(directory, flags, 0o600), os.open(directory, flags, 0o600)
    except OSError:
        return False
    try:
        os.write(one, b"x" * 4096)
        fcntl.ioctl(other, FICLONE, one)
    except OSError:
        return False
    finally:
        os.close(one)
        os.close(other)
    return True


@dataclass(slots=True)
class CopyResult:
    """The result of a copy, with the paths that were skipped."""

    files: int = 0
    bytes: int = 0
    skipped: list[str] = field(default_factory=list)


OnCopied = Callable[[CopyResult], None]


@dataclass(slots=True)
class _Level:
    """A directory that is being copied. Only the innermost levels are open."""

    path: str
    names: Iterator[tuple[str, bool]]  # name, and whether it is a directory
    ids: tuple[tuple[int, int], ...]
    fds: tuple[int, int] | None  # source and target


def copy_tree(
    source: Directory, target: Directory, path: str = "", *, on_copied: OnCopied | None = None
) -> CopyResult:
    """Copy the content of `path` in one directory to the same path in another. `on_copied` may raise."""
    copied, inside = CopyResult(), path
    one = source.open(path, os.O_RDONLY | os.O_DIRECTORY)
    stack = [_level(path, one, target.open(path, os.O_RDONLY | os.O_DIRECTORY))]
    try:
        while stack:
            level = stack[-1]
            assert level.fds is not None
            from_fd, to_fd = level.fds
            name, is_directory = next(level.names, ("", False))
            if not name:
                if len(stack) > 1:
                    _reopen(stack[-2], level)
                stack.pop()
                _finish(from_fd, to_fd)
                continue
            inside = f"{level.path}/{name}" if level.path else name
            if is_directory:
                if len(stack) > MAX_DEPTH:
                    raise BadRequest(
                        f"'{level.path[:80]}…' is deeper than {MAX_DEPTH} directories. Flatten it first."
                    )
                below = os.open(name, READ | os.O_DIRECTORY, dir_fd=from_fd)
                try:
                    made = _make_directory(target, to_fd, name)
                except BaseException:
                    os.close(below)
                    raise
                stack.append(_level(inside, below, made))
                if len(stack) > MAX_OPEN_LEVELS:
                    _close(stack[-MAX_OPEN_LEVELS - 1])
            elif not copy_entry(from_fd, to_fd, name, target, copied):
                copied.skipped.append(inside)
            copied.files += 1
            if on_copied is not None and copied.files % REPORT_INTERVAL_FILES == 0:
                on_copied(copied)
    except OSError as error:
        raise to_hutch_error(error, inside) from None
    finally:
        for level in stack:
            _close(level)
    return copied


def _level(path: str, from_fd: int, to_fd: int) -> _Level:
    try:
        with os.scandir(from_fd) as entries:
            names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        return _Level(path, iter(names), (_id(from_fd), _id(to_fd)), (from_fd, to_fd))
    except BaseException:
        os.close(from_fd)
        os.close(to_fd)
        raise


def _close(level: _Level) -> None:
    if level.fds is not None:
        for fd in level.fds:
            os.close(fd)
        level.fds = None


def _reopen(level: _Level, below: _Level) -> None:
    """Reopen a directory from its child. Refuses if the child was moved in the meantime."""
    if level.fds is not None or below.fds is None:
        return
    opened: list[int] = []
    try:
        for fd, id in zip(below.fds, level.ids, strict=True):
            opened.append(os.open("..", READ | os.O_DIRECTORY, dir_fd=fd))
            if _id(opened[-1]) != id:
                raise Conflict(f"'{below.path[:80]}' was moved while it was copied. Retry.")
    except BaseException:
        for fd in opened:
            os.close(fd)
        raise
    level.fds = (opened[0], opened[1])


def _id(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def copy_entry(from_fd: int, to_fd: int, name: str, target: Directory, copied: CopyResult) -> bool:
    """Copy a file or link to a name that does not exist. Returns False for anything else."""
    kind = os.stat(name, dir_fd=from_fd, follow_symlinks=False).st_mode
    if stat.S_ISLNK(kind):
        os.symlink(os.readlink(name, dir_fd=from_fd), name, dir_fd=to_fd)
        target.set_owner(to_fd, name)
        return True
    if not stat.S_ISREG(kind):
        return False
    fd = os.open(name, READ, dir_fd=from_fd)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return False
        new = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=to_fd)
        try:
            copied.bytes += _copy_content(fd, new, found.st_size)
            target.set_owner(new)
            os.fchmod(new, stat.S_IMODE(found.st_mode) & PERMISSIONS)
            os.utime(new, ns=(found.st_atime_ns, found.st_mtime_ns))
        finally:
            os.close(new)
    finally:
        os.close(fd)
    return True


def _make_directory(target: Directory, to_fd: int, name: str) -> int:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=to_fd)
        target.set_owner(to_fd, name)
    return os.open(name, READ | os.O_DIRECTORY, dir_fd=to_fd)


def _finish(from_fd: int, to_fd: int) -> None:
    """Set mode and times of a directory after its content."""
    found = os.fstat(from_fd)
    os.fchmod(to_fd, stat.S_IMODE(found.st_mode) & PERMISSIONS)
    os.utime(to_fd, ns=(found.st_atime_ns, found.st_mtime_ns))
    os.close(from_fd)
    os.close(to_fd)


def _copy_content(fd: int, new: int, size: int) -> int:
    """Copy a file and keep its holes. Returns the number of bytes outside holes."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(new, FICLONE, fd)
        return size
    total, at = 0, 0
    while at < size:
        try:
            at = os.lseek(fd, at, os.SEEK_DATA)
            end = os.lseek(fd, at, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole remains
                break
            end = size
        while at < end:
            done = _copy_range(fd, new, min(CHUNK_BYTES * 64, end - at), at)
            if done == 0:  # it was truncated in the meantime
                return total
            at, total = at + done, total + done
    os.ftruncate(new, max(size, at))
    return total


def _copy_range(fd: int, new: int, count: int, at: int) -> int:
    try:
        return os.copy_file_range(fd, new, count, at, at)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM):
            raise
    data = os.pread(fd, min(count, CHUNK_BYTES), at)
    return os.pwrite(new, data, at) if data else 0
