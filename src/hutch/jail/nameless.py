"""Files on disk that a jail keeps and that no walk of its workspace finds.

They were deleted, and somebody has them open, mapped, or in flight in a socket.
"""

import os
import re
import stat
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hutch.jail.members import Member, read, tables

DELETED = re.compile(rb"^(\w+)-(\w+) \S+ (\w+) (\w+:\w+) ([1-9]\d*) .*\(deleted\)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Nameless:
    """Files without a name that a jail keeps on disk."""

    bytes: int
    maybe_more: bool  # something could not be looked into


def nameless(jail: Sequence[Member], *, skip: Collection[int]) -> Nameless:
    """Files that were deleted, or never had a name, but are open; not those on the devices in `skip`."""
    sizes: dict[tuple[int, int], int] = {}
    maybe_more = False
    for member in jail:
        if member.trusted:
            continue
        for thread in tables(member):
            place = f"/proc/{member.pid}/task/{thread}"
            try:
                names = os.listdir(f"{place}/fd")  # noqa: PTH208
                maps = read(f"{place}/maps", strict=True)
            except PermissionError:
                maybe_more = True
                continue
            except OSError:
                continue
            for name in names:
                try:
                    about = os.stat(f"{place}/fd/{name}")  # noqa: PTH116
                except OSError:
                    continue
                if stat.S_ISSOCK(about.st_mode):  # which may hold files in flight
                    maybe_more |= re.search(rb"^scm_fds:\s+0$", read(f"{place}/fdinfo/{name}"), re.M) is None
                elif stat.S_ISREG(about.st_mode) and not about.st_nlink and about.st_dev not in skip:
                    sizes[about.st_dev, about.st_ino] = about.st_blocks * 512
            for start, end, _, device, inode in DELETED.findall(maps):
                key = (os.makedev(*(int(part, 16) for part in device.split(b":"))), int(inode))
                if key[0] in skip or key in sizes:
                    continue
                try:
                    mapped = f"/proc/{member.pid}/map_files/{int(start, 16):x}-{int(end, 16):x}"
                    sizes[key] = os.stat(mapped).st_blocks * 512  # noqa: PTH116
                except PermissionError:  # only root may; it may be larger than what is mapped
                    maybe_more = True
                except OSError:
                    continue
    return Nameless(sum(sizes.values()), maybe_more)
