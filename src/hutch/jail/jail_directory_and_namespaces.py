"""Where a jail works: a directory, and the namespaces in which it exists.

Most are plain directories of the host. One that is composed of layers exists only in
its own namespaces, which a descriptor keeps alive; bubblewrap is then started inside
them, and everything else is the same.

A path can lead elsewhere a moment later: a process that writes to a directory above can
replace it with a link. So the directory is opened once, and the directory that the jail
got is compared with it before anything runs.
"""

import errno
import fcntl
import os
from contextlib import ExitStack
from pathlib import Path

from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.jail.launch.jail_uid import Identity
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Descriptors of namespaces. The maker of the location owns them and keeps them open while it is used."""

    user: int | None  # None when root made it: root can mount without a user namespace
    mount: int


@dataclass(frozen=True, slots=True)
class JailLocation:
    """A directory for a jail to work on."""

    directory: Path  # as seen in `namespaces`
    written: Path  # host directory whose file system stores what is written
    namespaces: Namespaces | None = None
    identity: Identity | None = None  # the owner of the files; None lets the jail choose
    beside: tuple[Path, ...] = ()  # more directories, visible at the same path and read-only
    is_resolved: bool = False  # the path had no links, and must have none
    # Descriptors of `directory` and of each in `beside`: the jail must get these. The maker closes them.
    pinned: tuple[int, ...] = ()


def to_location(workspace: "str | os.PathLike[str] | JailLocation") -> JailLocation:
    """The location of a plain directory of the host, used in place."""
    if isinstance(workspace, JailLocation):
        return workspace
    path = as_path(workspace)
    try:
        directory = path.resolve()
    except OSError:  # a link at one check, and none at the next
        raise _replaced(path) from None
    except RuntimeError:
        raise NotFound(f"There is no directory '{path}' to open a jail on: its links form a loop.") from None
    return JailLocation(directory, directory, is_resolved=True)


class OpenLocation:
    """The directories of a location, held by descriptor."""

    def __init__(self, location: JailLocation) -> None:
        self.location = location
        self._stack = ExitStack()
        with self._stack:  # closes all unless every one can be opened
            self._written = self._open(location.written)
            self._directory: int | None = None
            self._beside: list[int] = []
            if location.namespaces is None:
                names = [location.directory, *location.beside]
                found = [self._copy(fd) for fd in location.pinned] or [self._open(name) for name in names]
                self._directory, *self._beside = found
            self._stack = self._stack.pop_all()

    def written(self) -> int:
        """A new readable descriptor of the directory that stores what is written."""
        return os.open(f"/proc/self/fd/{self._written}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def check(self, path_inside: Path, root: Path | None = None) -> None:
        """Check that a path in the jail is the same directory; with `root`, the jail's root, also those
        beside it."""
        if self._directory is not None and not os.path.samestat(
            os.fstat(self._directory), path_inside.stat()
        ):
            raise _replaced(self.location.directory)
        for fd, path in zip(self._beside, self.location.beside if root else (), strict=False):
            if not os.path.samestat(os.fstat(fd), Path(f"{root}{path}").stat()):
                raise _replaced(path)

    def close(self) -> None:
        self._stack.close()

    def _copy(self, pinned: int) -> int:
        fd = fcntl.fcntl(pinned, fcntl.F_DUPFD_CLOEXEC, 0)
        self._stack.callback(os.close, fd)
        return fd

    def _open(self, directory: Path) -> int:
        try:
            fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(
                f"There is no directory '{directory}' to open a jail on. Create it first."
            ) from None
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise NotFound(f"'{directory}' is not a directory: its links form a loop.") from None
        self._stack.callback(os.close, fd)
        if self.location.is_resolved and str(Path(f"/proc/self/fd/{fd}").readlink()) != str(directory):
            raise _replaced(directory)
        return fd


def _replaced(directory: Path) -> Conflict:
    return Conflict(
        f"'{directory}' was replaced by another directory while a jail was opened on it. "
        "Stop the programs that change the directories above it, and try again."
    )


def as_path(workspace: str | os.PathLike[str]) -> Path:
    try:
        return Path(workspace)
    except TypeError:
        kind = type(workspace).__name__
        raise BadRequest(f"The workspace is of type {kind}. Give the path of a directory.") from None
