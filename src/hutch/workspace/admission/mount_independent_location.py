"""Finds the location of a directory in its file system, independent of mount points.

A directory that is bind-mounted has several paths, and another directory may be mounted
somewhere below it. Comparing paths as text misses both. The kernel lists for each mount
which part of which file system it contains.
"""

import os
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path, PurePosixPath

from hutch.system.lazy_dataclass import dataclass

ESCAPED = re.compile(r"\\([0-7]{3})")  # the kernel's escapes for space, tab, newline and backslash


@dataclass(frozen=True, slots=True)
class Location:
    """A path inside a file system."""

    device: str
    path: PurePosixPath

    def holds(self, other: "Location") -> bool:
        """True if the other location is this one or below it."""
        return self.device == other.device and other.path.is_relative_to(self.path)


@dataclass(frozen=True, slots=True)
class _Mount:
    id: str
    device: str
    root: str
    point: str
    layers: tuple[str, ...] = ()  # of an overlay, as paths


class FileSystemView:
    """The mounts and paths of this machine at one moment: each is read once, for one check. Blocks the
    thread."""

    def __init__(self) -> None:
        self.mount_table = Path("/proc/self/mountinfo").read_bytes()
        self._mounts = _parse_table(self.mount_table)
        self._found: dict[tuple[Path, int | None], list[Location]] = {}
        self._resolved: dict[Path, Path] = {}
        self._stats: dict[Path, os.stat_result | None] = {}

    def resolve(self, path: Path) -> Path:
        """The path without links."""
        if path not in self._resolved:
            self._resolved[path] = path.resolve()
        return self._resolved[path]

    def is_same(self, path: Path, other: Path) -> bool:
        """True if both are the same file, such as by a bind mount."""
        one, two = self._stat(path), self._stat(other)
        return one is not None and two is not None and os.path.samestat(one, two)

    def locations(self, path: Path, fd: int | None = None) -> list[Location]:
        """The locations of a directory and of all mounts below it; empty if it does not exist.

        `fd` is an open descriptor of the directory, if the caller has one.
        """
        if (path, fd) not in self._found:
            self._found[path, fd] = self._find_locations(path, fd)
        return self._found[path, fd]

    def own_location(self, path: Path) -> list[Location]:
        """The location of a directory without mounts below it; empty if it does not exist."""
        found = _find(path, None, self._mounts)
        return [] if found is None else [_inside(each, found[0]) for each in found[1]]

    def _stat(self, path: Path) -> os.stat_result | None:
        if path not in self._stats:
            try:
                self._stats[path] = path.stat()
            except OSError:
                self._stats[path] = None
        return self._stats[path]

    def _find_locations(self, path: Path, fd: int | None) -> list[Location]:
        mounts = self._mounts
        found = _find(path, fd, mounts)
        if found is None:
            return []
        here, own = found
        prefix = "/" if str(here) == "/" else f"{here}/"
        below = (each for each in mounts if each.point.startswith(prefix) and each.point != prefix)
        return _locations_on(own, here, mounts) + [
            location
            for each in below
            for location in _locations_on([each], PurePosixPath(each.point), mounts)
        ]


def _find(
    path: Path, fd: int | None, mounts: tuple[_Mount, ...]
) -> tuple[PurePosixPath, list[_Mount]] | None:
    """The canonical path of a directory, and its mount."""
    try:
        own = os.open(path, os.O_PATH | os.O_CLOEXEC) if fd is None else fd
    except OSError:
        return None
    try:
        about = Path(f"/proc/self/fdinfo/{own}").read_text()
        here = PurePosixPath(os.readlink(f"/proc/self/fd/{own}"))  # noqa: PTH115
    finally:
        if fd is None:
            os.close(own)
    mount_id = dict(line.split(":\t", 1) for line in about.splitlines() if ":\t" in line)["mnt_id"].strip()
    return here, [each for each in mounts if each.id == mount_id and here.is_relative_to(each.point)]


def _locations_on(ones: list[_Mount], here: PurePosixPath, mounts: tuple[_Mount, ...]) -> list[Location]:
    """The locations of a directory on its mounts, including the layers of an overlay."""
    found = [_inside(each, here) for each in ones]
    for each in ones:
        # The layers of the root were mounted before boot: their paths are meaningless here.
        for layer in each.layers if each.point != "/" else ():
            part = PurePosixPath(each.root).relative_to("/") / here.relative_to(each.point)
            if layered := _find(Path(layer, part), None, mounts):
                found += [_inside(mount, layered[0]) for mount in layered[1]]
    return found


def _inside(mount: _Mount, here: PurePosixPath) -> Location:
    return Location(mount.device, PurePosixPath(mount.root) / here.relative_to(mount.point))


def any_holds(ones: Iterable[Location], others: Iterable[Location]) -> bool:
    """True if a location of the first group contains one of the second."""
    others = list(others)
    return any(one.holds(other) for one in ones for other in others)


@lru_cache(maxsize=1)  # it rarely changes
def _parse_table(table: bytes) -> tuple[_Mount, ...]:
    lines = table.decode(errors="surrogateescape").splitlines()
    return tuple(_parse(line) for line in lines if len(line.split(" ")) > 4)


def _parse(line: str) -> _Mount:
    about, _, kind = line.partition(" - ")
    fields, options = about.split(" "), kind.rpartition(" ")[2]
    layers: list[str] = []
    for option in options.split(",") if kind.startswith("overlay ") else ():
        name, _, value = option.partition("=")
        if name.rstrip("+") in ("lowerdir", "upperdir", "datadir"):
            layers += [_unescape(each) for each in value.split(":") if each.startswith("/")]
    return _Mount(fields[0], fields[2], _unescape(fields[3]), _unescape(fields[4]), tuple(layers))


def _unescape(text: str) -> str:
    return ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)
