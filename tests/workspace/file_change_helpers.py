"""A tree to change, a way to see all of it, and calls that fail."""

import errno
import hashlib
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

from hutch.snapshots.confined_directory import Directory
from hutch.workspace.files.file_change_syscalls import Syscalls
from hutch.workspace.files.file_reads_and_changes import Files

WHEN_NS = 1_600_000_000_000_000_007


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def make_place(tmp_path: Path) -> Path:
    """`tree` with a few files, `journal`, and `outside`, which must stay as it is."""
    for name in ("tree/src/deep", "journal", "outside"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "outside/secret").write_bytes(b"secret")
    tree = tmp_path / "tree"
    (tree / "a").write_bytes(b"alpha\n")
    (tree / "a").chmod(0o755)
    (tree / "b").write_bytes(b"beta\n")
    (tree / "src/c").write_bytes(b"gamma\n")
    (tree / "src/c").chmod(0o600)
    (tree / "src/deep/d").write_bytes(b"delta\n" * 1000)
    (tree / "link").symlink_to("src/c")
    for path in [*tree.rglob("*"), tree]:
        os.utime(path, ns=(WHEN_NS, WHEN_NS), follow_symlinks=False)
    return tree


def everything(tree: Path) -> dict[str, tuple[object, ...]]:
    """Everything about everything in a tree: content, kind, mode, owner, times."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [tree, *sorted(tree.rglob("*"))]:
        at = path.lstat()
        content: object = None
        if stat.S_ISREG(at.st_mode):
            content = path.read_bytes()
        elif stat.S_ISLNK(at.st_mode):
            content = str(path.readlink())
        about = (content, oct(at.st_mode), at.st_uid, at.st_gid, at.st_mtime_ns, at.st_nlink)
        found[str(path.relative_to(tree))] = about
    return found


def opened(tree: Path, calls: Syscalls | None = None) -> Files:
    return Files(Directory.at(tree), Directory.at(tree.parent / "journal"), calls)


def close(files: Files) -> None:
    files.tree.close()
    files.journal.place.close()


class Failing(Syscalls):
    """From the n-th call on, `maximum` calls fail; changes nothing before that."""

    def __init__(self, number: int, fail: Callable[[], None], maximum: int = 1) -> None:
        self.number = number
        self.maximum = maximum
        self.made = 0
        self.fail = fail

    def __getattribute__(self, name: str) -> object:
        found = object.__getattribute__(self, name)
        if name.startswith("_") or name not in vars(Syscalls):
            return found

        def call(*arguments: object) -> object:
            self.made += 1
            if self.number <= self.made < self.number + self.maximum:
                self.fail()
            return found(*arguments)

        return call


def failure(code: int) -> Callable[[], None]:
    def fail() -> None:
        raise OSError(code, os.strerror(code))

    return fail


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


CODES = [errno.EIO, errno.ENOSPC, errno.EACCES]
