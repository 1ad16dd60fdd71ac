"""Hides installed dependencies from git in a workspace.

Without it, `git status` lists every file of a layer that the repository does not ignore, and `git add --all`
would commit them. The file belongs to the workspace, so its content is untrusted: it is read and written
without following links, and only up to a size.
"""

import os
import stat
from collections.abc import Sequence

from hutch.domain.errors import HutchError
from hutch.snapshots.confined_directory import Directory

EXCLUDE = ".git/info/exclude"
MAX_BYTES = 256 * 1024
FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
SPECIAL = b"\\*?[!# "  # characters with a meaning in patterns


def exclude_from_git(tree: Directory, roots: Sequence[str]) -> None:
    """Add the paths to git's list of excluded ones, unless they are on it. Does nothing without a `.git`."""
    try:
        if not stat.S_ISDIR(tree.stat(".git").st_mode):
            return
        if not tree.exists(".git/info"):
            tree.make_directory(".git/info")
        fd = tree.open(EXCLUDE, FLAGS | os.O_CREAT, 0o644)
    except HutchError:
        return  # there is no repository here, or the workspace has replaced it
    with os.fdopen(fd, "r+b", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return
        tree.set_owner(fd)
        text = os.read(fd, MAX_BYTES + 1)
        known = set(text.splitlines())
        lines = [line for line in map(_pattern, roots) if line not in known]
        if lines and len(text) <= MAX_BYTES:
            separator = b"" if not text or text.endswith(b"\n") else b"\n"
            os.lseek(fd, 0, os.SEEK_END)
            file.write(separator + b"\n".join(lines) + b"\n")


def _pattern(path: str) -> bytes:
    escaped = bytearray(b"/")
    for byte in os.fsencode(path):
        if byte in SPECIAL:
            escaped += b"\\"
        escaped.append(byte)
    return bytes(escaped)
