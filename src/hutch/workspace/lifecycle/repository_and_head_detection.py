"""Detects whether a directory is a repository, and its commit.

Reads only names and a few short files, relative to the directory and never through a
link; git reads such a repository only inside a jail. If a base of that commit exists,
nothing else is needed.
"""

import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import field
from pathlib import Path

from hutch.domain.errors import BadRequest, Denied, HutchError, NotFound
from hutch.snapshots.confined_directory import Directory
from hutch.system.lazy_dataclass import dataclass

COMMIT = re.compile(r"[0-9a-f]{40}")
MAX_LINE_BYTES = 4096
MAX_PACKED_REFS_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Layout:
    """The directories of a repository."""

    root: Path  # the named directory
    bare: bool
    external: tuple[Path, ...] = ()  # git directories outside of it, for a linked worktree
    # Descriptors of `root` and `external`, if they are open; see `pinned_directory`.
    held: tuple[int, ...] = field(default=(), compare=False)


def find_repository(root: Path) -> Layout | None:
    """The layout of the repository at `root`; None if it is none. Reads names and two short files."""
    with Directory.at(root) as directory:
        layout, opened = find_layout(root, directory)
        for each in opened:
            each.close()
        return layout


def find_layout(root: Path, directory: Directory) -> tuple[Layout | None, list[Directory]]:
    """The layout of an open directory, and the external directories, which the caller closes."""
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


def enclosing_repository(path: Path, is_allowed: Callable[[Path], bool] = lambda path: True) -> Path | None:
    """The root of the repository whose files include a directory; None if there is none that is allowed.
    `path` has no links. Blocks the thread."""
    for each in filter(is_allowed, (path, *path.parents)):
        try:
            layout = find_repository(each)
        except (NotFound, Denied):  # it does not exist, or cannot be read
            continue
        if layout is not None:
            return each if each == path or not layout.bare else None
    return None


def _kind(directory: Directory, name: str) -> int | None:
    try:
        return directory.stat(name).st_mode
    except (BadRequest, Denied):
        return None


def _find_main_repository(root: Path, directory: Directory) -> tuple[Directory, Path]:
    """The git directory of the main repository. Refuses one that does not list the linked worktree."""
    dot_git = root / ".git"
    try:
        line = _line(directory, ".git").removeprefix("gitdir:").strip()
    except (HutchError, OSError) as error:
        raise BadRequest(f"'{dot_git}' cannot be read: {error}. Name another directory.") from None
    refusal = BadRequest(
        f"'{dot_git}' points to '{ascii(line)[1:-1]}', which does not point back. "
        "Name the directory of the main repository instead."
    )
    try:
        own = (root / line).resolve()
        path = own.parent.parent
        if (outer := _outer_repository(own)) is not None:
            refusal = BadRequest(
                f"'{root}' is a submodule: its commits are in '{outer}'. Hutch works on repositories that "
                f"contain their own: use '{outer}', or clone it (git clone '{root}' DIR) and use the clone."
            )
        if own.parent.name != "worktrees":
            raise refusal
        # By descriptor from here on: what is checked is what is used.
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


def _outer_repository(git_dir: Path) -> Path | None:
    """The repository that contains a submodule, by the path of the submodule's git directory."""
    parts = git_dir.parts
    found = [at for at in range(1, len(parts) - 2) if parts[at : at + 2] == (".git", "modules")]
    return Path(*parts[: found[0]]) if found else None


def _line(directory: Directory, path: str) -> str:
    """The first line of a regular file; reading a pipe would block forever."""
    fd = directory.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return os.fsdecode(os.read(fd, MAX_LINE_BYTES)).split("\n")[0]
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class Head:
    """The commit and branch that a local repository reports."""

    commit: str
    branch: str | None
    origin: str | None  # the address of its remote, without credentials


def quick_head(layout: Layout, revision: str | None) -> tuple[str, str | None] | None:
    """Commit and branch, if regular files contain them; None if git is needed."""
    if revision is not None and COMMIT.fullmatch(revision):
        return revision, None
    if layout.external:
        return None
    try:
        with _root(layout) as root, root.subdirectory("" if layout.bare else ".git") as git:
            if revision is not None:
                ref = revision if revision.startswith("refs/") else f"refs/heads/{revision}"
            else:
                line = _read(git, "HEAD")
                if COMMIT.fullmatch(line):
                    return line, None
                ref = line.removeprefix("ref: ")
            if not ref.startswith("refs/heads/"):
                return None
            commit = _ref(git, ref)
    except (HutchError, OSError):  # not a regular file; git will report the reason
        return None
    return (commit, ref.removeprefix("refs/heads/")) if commit else None


def _root(layout: Layout) -> Directory:
    if not layout.held:
        return Directory.at(layout.root)
    return Directory(fcntl.fcntl(layout.held[0], fcntl.F_DUPFD_CLOEXEC, 0))


def _ref(git: Directory, ref: str) -> str | None:
    if git.exists(ref):
        commit = _read(git, ref)
        return commit if COMMIT.fullmatch(commit) else None
    if git.exists("packed-refs"):
        suffix = os.fsencode(f" {ref}")
        for line in _content(git, "packed-refs", MAX_PACKED_REFS_BYTES).split(b"\n"):
            if line.endswith(suffix) and COMMIT.fullmatch(line[:40].decode(errors="replace")):
                return line[:40].decode() if line[40:] == suffix else None
    return None


def _read(git: Directory, path: str) -> str:
    return os.fsdecode(_content(git, path, MAX_LINE_BYTES)).split("\n")[0].strip()


def _content(git: Directory, path: str, max_bytes: int) -> bytes:
    fd = git.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        return os.read(fd, max_bytes)
    finally:
        os.close(fd)
