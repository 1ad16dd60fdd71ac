"""Where a jail works: a directory, and the namespaces in which it is that directory.

Most are plain directories of the host. One that is put together from layers
exists only in namespaces of its own, which a descriptor keeps; bubblewrap is then
started in there, and everything else is as it always is.

A name may lead elsewhere a moment later: whoever works on a directory further up
can put a link in its place. So a place is opened once, and what the jail got is
compared with that before anything runs in it.
"""

import errno
import fcntl
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.jail.launch.identity import Identity


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Descriptors of namespaces; they belong to whoever made the place, who keeps them while it is used."""

    user: int | None  # None when root made it: root needs no user namespace to mount in
    mount: int


@dataclass(frozen=True, slots=True)
class Place:
    """A directory for a jail to work on."""

    directory: Path  # as seen in `namespaces`
    written: Path  # where, as the host sees it, what is written takes room
    namespaces: Namespaces | None = None
    identity: Identity | None = None  # who owns what is there; None lets the jail be whoever it likes
    beside: tuple[Path, ...] = ()  # directories that belong to it: seen where they are, and only to be read
    is_resolved: bool = False  # there was no link on the way to it, and there must be none
    # Descriptors of `directory` and of each of `beside`, which the jail must get. The maker closes them.
    pinned: tuple[int, ...] = ()


def in_place(workspace: "str | os.PathLike[str] | Place") -> Place:
    """A plain directory of the host, used where it is."""
    if isinstance(workspace, Place):
        return workspace
    path = as_path(workspace)
    try:
        directory = path.resolve()
    except OSError:  # a link by one look, and none by the next
        raise _swapped(path) from None
    except RuntimeError:
        raise NotFound(
            f"There is no directory '{path}' to open a jail on: its links lead in a circle."
        ) from None
    return Place(directory, directory, is_resolved=True)


class Held:
    """The directories of a place, by descriptor."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._stack = ExitStack()
        with self._stack:  # unless both can be opened
            self._written = self._open(place.written)
            self._directory: int | None = None
            self._beside: list[int] = []
            if place.namespaces is None:
                names = [place.directory, *place.beside]
                found = [self._copy(fd) for fd in place.pinned] or [self._open(name) for name in names]
                self._directory, *self._beside = found
            self._stack = self._stack.pop_all()

    def written(self) -> int:
        """A new descriptor of where what is written takes room, to read there."""
        return os.open(f"/proc/self/fd/{self._written}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def check(self, shown: Path, root: Path | None = None) -> None:
        """That a path leads to the same directory, as one in the root of a jail must; with `root`, which is
        that root, also that the directories beside it are the same."""
        if self._directory is not None and not os.path.samestat(os.fstat(self._directory), shown.stat()):
            raise _swapped(self.place.directory)
        for fd, path in zip(self._beside, self.place.beside if root else (), strict=False):
            if not os.path.samestat(os.fstat(fd), Path(f"{root}{path}").stat()):
                raise _swapped(path)

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
            raise NotFound(f"'{directory}' is no directory: its links lead in a circle.") from None
        self._stack.callback(os.close, fd)
        if self.place.is_resolved and str(Path(f"/proc/self/fd/{fd}").readlink()) != str(directory):
            raise _swapped(directory)
        return fd


def _swapped(directory: Path) -> Conflict:
    return Conflict(
        f"'{directory}' became another directory while a jail was opened on it. "
        "End what works on the directories above, and try again."
    )


def as_path(workspace: str | os.PathLike[str]) -> Path:
    try:
        return Path(workspace)
    except TypeError:
        kind = type(workspace).__name__
        raise BadRequest(f"The workspace is of type {kind}. Give the path of a directory.") from None
