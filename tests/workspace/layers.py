"""A real overlay, mounted by a process of its own for as long as a test needs it."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hutch.workspace.directory import Directory
from hutch.workspace.snapshot import Content

SCRIPT = '/usr/bin/mount -t overlay -o "$1" overlay tree && echo mounted && exec cat'


@contextmanager
def layered(place: Path, lower: Path) -> Iterator[tuple[Path, Content]]:
    """Where the merged tree can be reached, and the same as what snapshots are taken of."""
    for name in ("upper", "work", "tree"):
        (place / name).mkdir(exist_ok=True)
    options = f"lowerdir={lower},upperdir=upper,workdir=work,userxattr,redirect_dir=nofollow,metacopy=off"
    holder = subprocess.Popen(
        ["unshare", "--user", "--map-root-user", "--mount", "/bin/sh", "-c", SCRIPT, "sh", options],
        cwd=place,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    with holder:
        assert holder.stdin and holder.stdout
        assert holder.stdout.readline() == b"mounted\n"
        tree = Path(f"/proc/{holder.pid}/root{place / 'tree'}")
        with (
            Directory(os.open(tree, os.O_PATH | os.O_DIRECTORY)) as directory,
            Directory.at(place / "upper") as upper,
        ):
            yield tree, Content(directory, upper)
        holder.stdin.close()
