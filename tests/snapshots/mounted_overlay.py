"""A real overlay, mounted by a process of its own for as long as a test needs it."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hutch.snapshots.confined_directory import Directory
from hutch.snapshots.snapshot import Content

COARSE = "/usr/bin/mount -t ramfs ramfs . && echo mounted && exec cat"
SCRIPT = '/usr/bin/mount -t overlay -o "$1" overlay tree && echo mounted && exec cat'


@contextmanager
def coarse(place: Path) -> Iterator[Path]:
    """A directory on a file system where changes within one tick of the clock have the same time stamp."""
    place.mkdir(exist_ok=True)
    with _held(["/bin/sh", "-c", COARSE], place) as pid:
        yield Path(f"/proc/{pid}/root{place}")


@contextmanager
def layered(place: Path, lower: Path) -> Iterator[tuple[Path, Content]]:
    """Where the merged tree can be reached, and the same as what snapshots are taken of."""
    for name in ("upper", "work", "tree"):
        (place / name).mkdir(exist_ok=True)
    options = f"lowerdir={lower},upperdir=upper,workdir=work,userxattr,redirect_dir=nofollow,metacopy=off"
    with _held(["/bin/sh", "-c", SCRIPT, "sh", options], place) as pid:
        tree = Path(f"/proc/{pid}/root{place / 'tree'}")
        with (
            Directory(os.open(tree, os.O_PATH | os.O_DIRECTORY)) as directory,
            Directory.at(place / "upper") as upper,
        ):
            yield tree, Content(directory, upper)


@contextmanager
def _held(command: list[str], place: Path) -> Iterator[int]:
    """A process that has mounted something in namespaces of its own, until we are done with it."""
    holder = subprocess.Popen(
        ["unshare", "--user", "--map-root-user", "--mount", *command],
        cwd=place,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    with holder:
        assert holder.stdin and holder.stdout
        assert holder.stdout.readline() == b"mounted\n"
        yield holder.pid
        holder.stdin.close()
