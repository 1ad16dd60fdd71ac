"""A directory that a user names: whether it is a repository, and at which commit.

Only names and a few short files are read here, relative to the directory and
never through a link; git itself reads such a repository only inside a jail. When
a base of that commit exists already, that is all there is to do.
"""

import errno
import fcntl
import os
import re
import stat
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from hutch.domain.errors import BadRequest, Denied, HutchError
from hutch.snapshots.directory import Directory

COMMIT = re.compile(r"[0-9a-f]{40}")
MAX_LINE_BYTES = 4096
MAX_PACKED_REFS_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a repository's parts are."""

    root: Path  # the directory that was named
    bare: bool
    external: tuple[Path, ...] = ()  # directories of git's outside of it, as a linked worktree has them
    # Descriptors of `root` and of `external`, if they are held open; see `pinned`.
    held: tuple[int, ...] = field(default=(), compare=False)


def find_repository(root: Path) -> Layout | None:
    """How the repository at `root` is laid out; None when there is none. Reads names and two short files."""
    with Directory.at(root) as directory:
        layout, opened = find_layout(root, directory)
        for each in opened:
            each.close()
        return layout


def find_layout(root: Path, directory: Directory) -> tuple[Layout | None, list[Directory]]:
    """The same of a directory that is held open, with the directories elsewhere, which the caller closes."""
    kind = _kind(directory, ".git")
    if kind is not None and stat.S_ISLNK(kind):
        raise BadRequest(f"'{root / '.git'}' is a link. Name the directory of the repository itself.")
    if kind is not None and stat.S_ISDIR(kind):
        return Layout(root, bare=False), []
    if kind is not None and stat.S_ISREG(kind):
        common, path = _find_main_repository(root, directory)
        return Layout(root, bare=False, external=(path,)), [common]
    parts = {"HEAD": stat.S_ISREG, "objects": stat.S_ISDIR, "refs": stat.S_ISDIR}
    if all((mode := _kind(directory, name)) is not None and fits(mode) for name, fits in parts.items()):
        return Layout(root, bare=True), []
    return None, []


def _kind(directory: Directory, name: str) -> int | None:
    try:
        return directory.stat(name).st_mode
    except (BadRequest, Denied):
        return None


def _find_main_repository(root: Path, directory: Directory) -> tuple[Directory, Path]:
    """The main repository's git directory; only of one that knows the linked worktree as its own."""
    dot_git = root / ".git"
    try:
        told = _line(directory, ".git").removeprefix("gitdir:").strip()
    except (HutchError, OSError) as error:
        raise BadRequest(f"'{dot_git}' cannot be read: {error}. Name another directory.") from None
    refusal = BadRequest(
        f"'{dot_git}' points to '{ascii(told)[1:-1]}', which does not point back. "
        "Name the directory of the main repository instead."
    )
    try:
        own = (root / told).resolve()
        path = own.parent.parent
        if own.parent.name != "worktrees":
            raise refusal
        # From here on by descriptor: what is read is of the very directory that is used.
        with ExitStack() as stack:
            common = stack.enter_context(Directory.without_links(path))
            back = (own / _line(common, f"worktrees/{own.name}/gitdir")).resolve()
            named = (own / _line(common, f"worktrees/{own.name}/commondir")).resolve()
            if back != dot_git or named != path:
                raise refusal
            stack.pop_all()
        return common, path
    except (HutchError, OSError, ValueError):
        raise refusal from None


def _line(directory: Directory, path: str) -> str:
    """The first line of a plain file; a pipe in its place would hold us for ever."""
    fd = directory.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file")
        return os.fsdecode(os.read(fd, MAX_LINE_BYTES)).split("\n")[0]
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
    if layout.external:
        return None
    try:
        with _root(layout) as root, root.subdirectory("" if layout.bare else ".git") as git:
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


def _root(layout: Layout) -> Directory:
    if not layout.held:
        return Directory.at(layout.root)
    return Directory(fcntl.fcntl(layout.held[0], fcntl.F_DUPFD_CLOEXEC, 0))


def _ref(git: Directory, ref: str) -> str | None:
    if git.exists(ref):
        told = _read(git, ref)
        return told if COMMIT.fullmatch(told) else None
    if git.exists("packed-refs"):
        wanted = os.fsencode(f" {ref}")
        for line in _content(git, "packed-refs", MAX_PACKED_REFS_BYTES).split(b"\n"):
            if line.endswith(wanted) and COMMIT.fullmatch(line[:40].decode(errors="replace")):
                return line[:40].decode() if line[40:] == wanted else None
    return None


def _read(git: Directory, path: str) -> str:
    return os.fsdecode(_content(git, path, MAX_LINE_BYTES)).split("\n")[0].strip()


def _content(git: Directory, path: str, most: int) -> bytes:
    fd = git.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        return os.read(fd, most)
    finally:
        os.close(fd)
