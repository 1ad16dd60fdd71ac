"""Where a directory lies in its file system, whatever it is mounted as.

The same directory has several paths when it is bind-mounted, and a directory may
show another one at a mount point below it. Paths that are compared as text miss
both. The kernel tells for each mount which part of which file system it shows.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ESCAPED = re.compile(r"\\([0-7]{3})")  # how the kernel writes a space, a tab, a newline or a backslash


@dataclass(frozen=True, slots=True)
class Location:
    """A path inside a file system."""

    device: str
    path: PurePosixPath

    def holds(self, other: "Location") -> bool:
        """Whether the other one is this one, or below it."""
        return self.device == other.device and other.path.is_relative_to(self.path)


@dataclass(frozen=True, slots=True)
class _Mount:
    id: str
    device: str
    root: str
    point: str


def locations(path: Path, fd: int | None = None) -> list[Location]:
    """What can be reached through a directory: itself, and all that is mounted below. Blocks.

    `fd` is a descriptor of it, for who holds one. Of what does not exist there is nothing.
    """
    try:
        own = os.open(path, os.O_PATH | os.O_CLOEXEC) if fd is None else fd
    except OSError:
        return []
    try:
        about = Path(f"/proc/self/fdinfo/{own}").read_text()
        here = PurePosixPath(os.readlink(f"/proc/self/fd/{own}"))  # noqa: PTH115
    finally:
        if fd is None:
            os.close(own)
    mount_id = dict(line.split(":\t", 1) for line in about.splitlines() if ":\t" in line)["mnt_id"].strip()
    mounts = _mounts()
    found = [
        Location(each.device, PurePosixPath(each.root) / here.relative_to(each.point))
        for each in mounts
        if each.id == mount_id and here.is_relative_to(each.point)
    ]
    below = (each for each in mounts if here in PurePosixPath(each.point).parents)
    return found + [Location(each.device, PurePosixPath(each.root)) for each in below]


def any_holds(ones: Iterable[Location], others: Iterable[Location]) -> bool:
    """Whether one of these holds one of those."""
    others = list(others)
    return any(one.holds(other) for one in ones for other in others)


def _mounts() -> list[_Mount]:
    lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    fields = (line.split(" ") for line in lines)
    return [_Mount(each[0], each[2], _plain(each[3]), _plain(each[4])) for each in fields if len(each) > 4]


def _plain(text: str) -> str:
    return ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)
