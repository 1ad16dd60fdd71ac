"""A directory that a user names: whether it is a repository, and at which commit.

Only names and a few short files are read here, relative to the directory and
never through a link; git itself reads such a repository only inside a jail. When
a base of that commit exists already, that is all there is to do.
"""

import errno
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from hutch.domain.errors import BadRequest, HutchError
from hutch.workspace.directory import Directory

COMMIT = re.compile(r"[0-9a-f]{40}")
LONGEST_LINE = 4096
MOST_PACKED_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a repository's parts are."""

    root: Path  # the directory that was named
    bare: bool
    elsewhere: tuple[Path, ...] = ()  # directories of git's outside of it, as a linked worktree has them


def find_repository(root: Path) -> Layout | None:
    """How the repository at `root` is laid out; None when there is none. Reads names and two short files."""
    dot_git = root / ".git"
    if dot_git.is_symlink():
        raise BadRequest(f"'{dot_git}' is a link. Name the directory of the repository itself.")
    if dot_git.is_dir():
        return Layout(root, bare=False)
    if dot_git.is_file():
        return Layout(root, bare=False, elsewhere=_linked(root, dot_git))
    if (root / "HEAD").is_file() and (root / "objects").is_dir() and (root / "refs").is_dir():
        return Layout(root, bare=True)
    return None


def _linked(root: Path, dot_git: Path) -> tuple[Path, ...]:
    """The directories of a linked worktree; only of one that the main repository knows as its own."""
    try:
        told = _line(dot_git).removeprefix("gitdir:").strip()
    except OSError as error:
        raise BadRequest(f"'{dot_git}' cannot be read: {error.strerror}. Name another directory.") from None
    refusal = BadRequest(
        f"'{dot_git}' points to '{ascii(told)[1:-1]}', which does not point back. "
        "Name the directory of the main repository instead."
    )
    try:
        own = (root / told).resolve()
        back = (own / _line(own / "gitdir")).resolve()
        common = (own / _line(own / "commondir")).resolve()
    except (OSError, ValueError):
        raise refusal from None
    if back != dot_git.resolve() or own.parent != common / "worktrees":
        raise refusal
    return (common,)


def _line(path: Path) -> str:
    """The first line of a plain file; a pipe in its place would hold us for ever."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file")
        return os.fsdecode(os.read(fd, LONGEST_LINE)).split("\n")[0]
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class Head:
    """What a local repository says of the commit that was asked for."""

    commit: str
    branch: str | None
    origin: str | None  # the address that it was cloned from, without credentials


def quick_head(layout: Layout, revision: str | None) -> tuple[str, str | None] | None:
    """The commit, and the branch, if plain files tell; None when git has to be asked."""
    if revision is not None and COMMIT.fullmatch(revision):
        return revision, None
    if layout.elsewhere:
        return None
    try:
        with Directory.at(layout.root if layout.bare else layout.root / ".git") as git:
            if revision is not None:
                ref = revision if revision.startswith("refs/") else f"refs/heads/{revision}"
            else:
                told = _read(git, "HEAD")
                if COMMIT.fullmatch(told):
                    return told, None
                ref = told.removeprefix("ref: ")
            if not ref.startswith("refs/heads/"):
                return None
            commit = _ref(git, ref)
    except (HutchError, OSError):  # a directory or a device where a file should be; git will say what it is
        return None
    return (commit, ref.removeprefix("refs/heads/")) if commit else None


def _ref(git: Directory, ref: str) -> str | None:
    if git.exists(ref):
        told = _read(git, ref)
        return told if COMMIT.fullmatch(told) else None
    if git.exists("packed-refs"):
        wanted = os.fsencode(f" {ref}")
        for line in _content(git, "packed-refs", MOST_PACKED_BYTES).split(b"\n"):
            if line.endswith(wanted) and COMMIT.fullmatch(line[:40].decode(errors="replace")):
                return line[:40].decode() if line[40:] == wanted else None
    return None


def _read(git: Directory, path: str) -> str:
    return os.fsdecode(_content(git, path, LONGEST_LINE)).split("\n")[0].strip()


def _content(git: Directory, path: str, most: int) -> bytes:
    fd = git.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        return os.read(fd, most)
    finally:
        os.close(fd)
