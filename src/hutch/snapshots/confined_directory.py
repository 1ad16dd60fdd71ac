"""File access that cannot leave one directory.

The content of a workspace is hostile: a link may point anywhere and be swapped
between a check and a use. So there are no checks: the kernel resolves every path
beneath an open descriptor (openat2), and any path that leads out of it is an error.
"""

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from hutch.domain.errors import BadRequest, Conflict, Denied, HutchError, LimitReached, NotFound, Unavailable

OPENAT2 = 437  # the same on every architecture
AT_FDCWD = -100
RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 0x02, 0x04, 0x08
RENAME_NOREPLACE = 1
MAX_ATTEMPTS = 1000  # the kernel asks for a retry after a rename above a path with `..` in it
BASE_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # a fifo in place of a file must not block
PATH_ONLY = os.O_PATH | os.O_DIRECTORY

_libc = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class Directory:
    """Files by path relative to one directory; "" is the directory itself."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        found = os.fstat(fd)
        self.owner = (found.st_uid, found.st_gid)

    @classmethod
    def at(cls, path: Path) -> Self:
        """A directory of the host, by a trusted path."""
        try:
            return cls(os.open(path, PATH_ONLY | os.O_NOFOLLOW | os.O_CLOEXEC))
        except OSError as error:
            raise to_hutch_error(error, str(path)) from None

    @classmethod
    def without_links(cls, path: Path) -> Self:
        """A directory of the host by an absolute path without links."""
        if not path.is_absolute() or ".." in path.parts:
            raise BadRequest(f"'{path}' is not the full path of a directory.")
        resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS
        try:
            return cls(_openat2(AT_FDCWD, os.fsencode(path), PATH_ONLY | os.O_CLOEXEC, 0, resolve))
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise Conflict(
                    f"'{path}' now goes through a link that was not there before. Give the "
                    "target of the link, or restore the directory."
                ) from None
            raise to_hutch_error(error, str(path)) from None

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        """A descriptor for `path`; links are followed as long as they stay inside."""
        try:
            return self._open(path, flags, mode)
        except OSError as error:
            raise to_hutch_error(error, path) from None

    def subdirectory(self, path: str) -> "Directory":
        """A directory inside this one. Paths cannot leave that one, either."""
        return Directory(self.open(path, PATH_ONLY))

    def stat(self, path: str, *, follow: bool = False) -> os.stat_result:
        fd = self.open(path, os.O_PATH | (0 if follow else os.O_NOFOLLOW))
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)

    def exists(self, path: str) -> bool:
        """True if the path exists, even as a broken link."""
        try:
            self.stat(path)
        except NotFound:
            return False
        return True

    @contextmanager
    def parent(self, path: str) -> Iterator[tuple[int, str]]:
        """The parent directory of `path`, and the name in it, for calls that act on names."""
        above, slash, name = path.rstrip("/").rpartition("/")
        if name in ("", ".", "..") or "\0" in name:
            raise BadRequest(
                f"'{path}' names no file inside the workspace. Give a path such as 'src/main.py'."
            )
        fd = self.open(above or slash, PATH_ONLY)
        try:
            yield fd, name
        except OSError as error:
            raise to_hutch_error(error, path) from None
        finally:
            os.close(fd)

    def make_directory(self, path: str, *, parents: bool = True) -> None:
        """Create a directory and its parents. An existing directory is no error, an existing file is."""
        names = path.rstrip("/").split("/")
        for count in range(1 if parents else len(names), len(names) + 1):
            made = "/".join(names[:count])
            try:
                with self.parent(made) as (fd, last):
                    os.mkdir(last, 0o755, dir_fd=fd)
                    self.set_owner(fd, last)
            except Conflict:
                if not stat.S_ISDIR(self.stat(made, follow=True).st_mode):
                    raise Conflict(f"'{made}' is a file, not a directory.") from None

    def set_owner(self, fd: int, name: str = "") -> None:
        """Give a new file to the directory's owner, if root has created it."""
        if (os.geteuid(), os.getegid()) == self.owner:
            return
        if name:
            os.chown(name, *self.owner, dir_fd=fd, follow_symlinks=False)
        else:
            os.fchown(fd, *self.owner)

    def rename(self, old: str, new: str, *, replace: bool) -> None:
        with self.parent(old) as (fd, name), self.parent(new) as (new_fd, new_name):
            if replace:
                os.rename(name, new_name, src_dir_fd=fd, dst_dir_fd=new_fd)
                return
            done = _libc.renameat2(fd, os.fsencode(name), new_fd, os.fsencode(new_name), RENAME_NOREPLACE)
            if done != 0:
                code = ctypes.get_errno()
                which = new if code in (errno.EEXIST, errno.ENOTEMPTY) else old
                raise to_hutch_error(OSError(code, os.strerror(code)), which)

    def read_link(self, path: str) -> str:
        with self.parent(path) as (fd, name):
            return os.readlink(name, dir_fd=fd)

    def remove(self, path: str) -> None:
        """Remove a file, a link or a whole tree of any depth and modes."""
        with self.parent(path) as (fd, name):
            remove_entry(fd, name)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self, path: str, flags: int, mode: int) -> int:
        flags |= os.O_CLOEXEC if flags & os.O_PATH else BASE_FLAGS
        mode = mode if flags & (os.O_CREAT | os.O_TMPFILE & ~os.O_DIRECTORY) else 0
        name = os.fsencode(path) or b"."
        return _openat2(self.fd, name, flags, mode, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)


def _openat2(directory: int, name: bytes, flags: int, mode: int, resolve: int) -> int:
    if b"\0" in name:
        raise OSError(errno.EINVAL, "a name cannot hold a NUL")
    how = _How(flags=flags, mode=mode, resolve=resolve)
    for _ in range(MAX_ATTEMPTS):
        fd: int = _libc.syscall(OPENAT2, directory, name, ctypes.byref(how), ctypes.sizeof(how))
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        if code not in (errno.EAGAIN, errno.EINTR):
            raise OSError(code, os.strerror(code))
    raise OSError(errno.EBUSY, "its directories are being moved")


def remove_entry(fd: int, name: str) -> None:
    """Remove an entry and everything below it, relative to a directory descriptor; follows no links.

    Descends by descriptor and returns by `..`, so that depth costs neither descriptors nor stack. Another
    process may move the directory meanwhile, so returning to a different directory is an error.
    """
    if not stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=fd)
        return
    here = _enter(fd, name)
    above: list[tuple[str, tuple[int, int]]] = [(name, _identity(fd))]
    try:
        while above:
            down = _clear(here)
            if down is not None:
                above.append((down, _identity(here)))
                below = _enter(here, down)
                os.close(here)
                here = below
                continue
            done, parent = above.pop()
            if not above:
                break
            up = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = up
            if _identity(here) != parent:
                raise OSError(errno.EBUSY, "it is being moved while it is removed")
            os.rmdir(done, dir_fd=here)
        os.rmdir(name, dir_fd=fd)
    finally:
        os.close(here)


def _clear(fd: int) -> str | None:
    """Unlink the files of a directory; returns the name of a subdirectory that must be emptied first."""
    with os.scandir(fd) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                try:
                    os.rmdir(entry.name, dir_fd=fd)
                except OSError as error:
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EACCES, errno.EPERM):
                        raise
                    return entry.name
            else:
                with contextlib.suppress(FileNotFoundError):  # another process removed it
                    os.unlink(entry.name, dir_fd=fd)
    return None


def _enter(fd: int, name: str) -> int:
    """Open a directory for emptying it, and add the permissions for that."""
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    path_fd = os.open(name, flags | os.O_PATH, dir_fd=fd)
    try:
        if os.fstat(path_fd).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            Path(f"/proc/self/fd/{path_fd}").chmod(
                stat.S_IRWXU
            )  # by descriptor, so that the path cannot be swapped
        return os.open(".", flags | os.O_RDONLY, dir_fd=path_fd)
    finally:
        os.close(path_fd)


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def to_hutch_error(error: OSError, path: str) -> HutchError:
    """The error for a path, with a remedy."""
    display = path.encode("utf-8", "backslashreplace").decode() or "."
    match error.errno:
        case errno.ENOENT:
            return NotFound(f"'{display}' does not exist.")
        case errno.EXDEV:
            return Denied(f"'{display}' leads out of the workspace. Only paths inside it can be used.")
        case errno.ELOOP:
            return Denied(f"'{display}' goes through a link that is broken or part of a loop.")
        case errno.EEXIST | errno.ENOTEMPTY:
            return Conflict(f"'{display}' exists already.")
        case errno.EISDIR:
            return BadRequest(f"'{display}' is a directory; give the path of a file in it.")
        case errno.ENOTDIR:
            return BadRequest(f"'{display}' goes through something that is not a directory.")
        case errno.ENAMETOOLONG:
            return BadRequest(
                f"'{display[:80]}…' is longer than a path can be (4,095 bytes, 255 for each name)."
            )
        case errno.EINVAL | errno.ENXIO | errno.ENODEV:
            return BadRequest(f"'{display}' cannot be used like this: {error.strerror}.")
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return Denied(f"'{display}': {error.strerror}. Change its mode or its owner.")
        case errno.EBUSY | errno.ETXTBSY:
            return Conflict(f"'{display}' is in use: {error.strerror}. Try again in a moment.")
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return LimitReached(
                f"No space for '{display}': {error.strerror}. Delete files or raise the quota.",
                limit="workspace.quota_bytes",
            )
    return Unavailable(f"'{display}': {error.strerror or error}.")
