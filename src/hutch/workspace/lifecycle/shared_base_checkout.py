"""A base: one commit of a repository, checked out once and shared by workspaces.

It is made in a temporary directory, appears by a rename, and never changes. Hutch writes
its `.git`: the packs are hard links to those of the mirror, so history costs no space,
and it contains no hook, filter or credential. Files have the time of the commit, and the
index compares only time and size, so that `git status` in a copy, or under another user,
need not read every file. The files on disk equal those of the commit, byte by byte:
attributes that would change them, such as other line ends, are disabled.
"""

import asyncio
import errno
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from hutch.domain.errors import BadRequest, Unavailable
from hutch.forge.git_progress import OnProgress
from hutch.forge.host_git import Git, GitFailed
from hutch.snapshots.git_object_reader import EMPTY_TREE
from hutch.snapshots.prebuilt_base_file_index import BaseIndex, index_base
from hutch.system.lazy_dataclass import dataclass
from hutch.system.uncancellable_work import run_in_thread
from hutch.workspace.lifecycle.commit_size import CommitSize, CommitTrees, check_size, read_trees
from hutch.workspace.lifecycle.workspace_and_cache_removal import discard, temporary_name
from hutch.workspace.lifecycle.workspace_record_and_directories import Home

FILE = "base.json"
INDEX = "index"
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
LFS_POINTER_BYTES = range(100, 1024)
MAX_NAMES_IN_NOTE = 5  # in one note
# info/attributes overrides all other attribute files.
ATTRIBUTES = "* -text !eol -ident -filter !working-tree-encoding\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """Facts about a base that need no scan."""

    key: str
    source: str
    commit: str
    tree: str  # the id of the commit's tree
    branch: str | None
    bytes: int
    files: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRequest:
    """The commit for a new base, and the origin to write into its `.git`."""

    source: str
    commit: str
    branch: str | None
    origin: str | None  # the address of the remote, without credentials


def base_key(repository: str, commit: str, branch: str | None) -> str:
    """The name of a base, which includes the branch."""
    return f"{repository}-{commit[:20]}" + (
        f"-{hashlib.sha256(os.fsencode(branch)).hexdigest()[:8]}" if branch else ""
    )


def lock_path(home: Home, key: str) -> Path:
    """The lock file of a base. Its modification time is the last use of the base."""
    return home.bases / f"{key}.lock"


def tree_path(home: Home, key: str) -> Path:
    return home.bases / key / "tree"


def find_base(home: Home, key: str) -> Base | None:
    """An existing base. The caller holds its lock, so that it is not removed."""
    try:
        fields = json.loads((home.bases / key / FILE).read_text())
    except FileNotFoundError:
        return None
    os.utime(lock_path(home, key))
    return Base(**{**fields, "notes": tuple(fields["notes"])})


def open_index(home: Home, key: str) -> BaseIndex:
    """The index of a base, which snapshots of its workspaces refer to."""
    return BaseIndex(home.bases / key / INDEX, tree_path(home, key))


async def make_base(
    home: Home,
    git: Git,
    mirror: Path,
    key: str,
    request: BaseRequest,
    *,
    max_size: CommitSize | None = None,
    on_progress: OnProgress | None = None,
) -> Base:
    """Check out a commit of the mirror. Refuses one that exceeds `max_size`.

    The caller holds the lock, and no base with that key exists.
    """
    place = home.bases / temporary_name(key)
    tree = place / "tree"
    try:
        git_dir = await run_in_thread(_make_git_directory, mirror, tree, request, await _tags(git, mirror))
        try:
            trees = await read_trees(git, git_dir, request.commit)
            if max_size is not None:
                commit_size = await asyncio.to_thread(trees.total_size)
                check_size(request.source, request.commit, commit_size, max_size)
            await git.run(
                *("read-tree", "-v", "--reset", "-u", request.commit),
                git_dir=git_dir,
                work_tree=tree,
                on_progress=on_progress,
            )
        except GitFailed as error:
            raise BadRequest(
                f"{request.source} cannot be checked out at {request.commit[:12]}: "
                f"{error.stderr.strip()[-300:]}"
            ) from None
        words = ("show", "--no-patch", "--format=%T %ct", request.commit)
        tree_id, seconds = (await git.run(*words, git_dir=git_dir)).decode().split()
        size, files, pointers = await run_in_thread(_set_times_and_count, tree, int(seconds))
        await git.run("update-index", "-q", "--refresh", git_dir=git_dir, work_tree=tree)
        base = Base(
            key=key,
            source=request.source,
            commit=request.commit,
            tree=tree_id,
            branch=request.branch,
            bytes=size,
            files=files,
            notes=(*_note_submodules(await _submodules(git, git_dir)), *_note_pointers(pointers)),
        )
        index = await asyncio.to_thread(index_base, tree, place / INDEX, commit_tree=tree_id)
        await asyncio.to_thread(_check_checkout, index, trees, request)
        (place / FILE).write_text(json.dumps(asdict(base), indent=1) + "\n")
        place.rename(home.bases / key)
    except BaseException:
        await asyncio.shield(asyncio.ensure_future(asyncio.to_thread(discard, place)))
        raise
    return base


def _make_git_directory(mirror: Path, tree: Path, request: BaseRequest, tags: list[str]) -> Path:
    git_dir = tree / ".git"
    for name in ("objects/pack", "objects/info", "refs/heads", "refs/tags", "info"):
        (git_dir / name).mkdir(parents=True)
    for pack in sorted((mirror / "objects/pack").iterdir()):
        if pack.name.startswith("pack-") and pack.suffix in (".pack", ".idx", ".rev"):
            _link(pack, git_dir / "objects/pack" / pack.name)
    if (mirror / "shallow").exists():
        shutil.copyfile(mirror / "shallow", git_dir / "shallow")
    refs = [line for line in tags if line]
    if request.branch is not None:
        refs.append(f"{request.commit} refs/heads/{request.branch}")
        if request.origin is not None:
            refs.append(f"{request.commit} refs/remotes/origin/{request.branch}")
    refs.sort(key=lambda line: line.split(" ", 1)[1].encode("utf-8", "surrogateescape"))
    _write(git_dir / "packed-refs", "# pack-refs with: sorted \n" + "".join(f"{line}\n" for line in refs))
    _write(git_dir / "config", _config(request))
    _write(
        git_dir / "HEAD", f"ref: refs/heads/{request.branch}\n" if request.branch else f"{request.commit}\n"
    )
    _write(git_dir / "info/attributes", ATTRIBUTES)
    _write(git_dir / "description", "A workspace.\n")
    return git_dir


def _check_checkout(index: BaseIndex, trees: CommitTrees, request: BaseRequest) -> None:
    """Check that the files on disk equal those of the commit: a difference would look like a change."""
    found = index.top.files or EMPTY_TREE
    if found not in (trees.top, trees.as_written()):
        raise Unavailable(
            f"{request.source} was not checked out as {request.commit[:12]} has it: "
            f"the tree on disk is {found.hex()[:12]}. Check its .gitattributes."
        )


def _config(request: BaseRequest) -> str:
    lines = [
        "[core]",
        "\trepositoryformatversion = 0",
        "\tfilemode = true",
        "\tbare = false",
        "\tlogallrefupdates = true",
        "\tcheckStat = minimal",  # a copy has other inodes, and a jail another owner
        "\ttrustctime = false",
        "[gc]",
        "\tauto = 0",
    ]
    if request.origin is not None:
        lines += [
            '[remote "origin"]',
            f"\turl = {_quoted(request.origin)}",
            "\tfetch = +refs/heads/*:refs/remotes/origin/*",
        ]
        if request.branch is not None:
            name = _quoted(request.branch)
            merge = _quoted(f"refs/heads/{request.branch}")
            lines += [f"[branch {name}]", "\tremote = origin", f"\tmerge = {merge}"]
    return "\n".join(lines) + "\n"


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "surrogateescape"))


def _link(pack: Path, target: Path) -> None:
    try:
        target.hardlink_to(pack)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
            raise
        shutil.copyfile(pack, target)


def _set_times_and_count(tree: Path, seconds: int) -> tuple[int, int, list[str]]:
    """Set the commit's time on every file, count the files, and find git-lfs pointers."""
    # Not the current time: a change within the same second would keep the time.
    when = min(max(seconds, 1), int(time.time()) - 10) * 1_000_000_000
    total, files, pointers = 0, 0, []
    git_dir, waiting = os.fspath(tree / ".git"), [(os.fspath(tree), True)]
    while waiting:  # not recursive: directories may be deeper than the recursion limit
        directory, own = waiting.pop()
        with os.scandir(directory) as entries:
            for entry in entries:
                files += 1
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, own and entry.path != git_dir))
                    continue
                found = entry.stat(follow_symlinks=False)
                total += found.st_blocks * 512
                if own:
                    size, is_file = found.st_size, stat.S_ISREG(found.st_mode)
                    if size in LFS_POINTER_BYTES and is_file and _is_pointer(entry.path):
                        pointers.append(os.path.relpath(entry.path, tree))
                    os.utime(entry.path, ns=(when, when), follow_symlinks=False)
    return total, files, pointers


def _is_pointer(path: str) -> bool:
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read(len(LFS_POINTER)) == LFS_POINTER


async def _tags(git: Git, mirror: Path) -> list[str]:
    words = ("for-each-ref", "--format=%(objectname) %(refname)", "refs/tags")
    return (await git.run(*words, git_dir=mirror)).decode("utf-8", "surrogateescape").split("\n")


async def _submodules(git: Git, git_dir: Path) -> list[str]:
    listed = (await git.run("ls-files", "--stage", "-z", git_dir=git_dir)).split(b"\0")
    return [os.fsdecode(line.partition(b"\t")[2]) for line in listed if line.startswith(b"160000 ")]


def _note_submodules(paths: list[str]) -> Iterable[str]:
    if paths:
        yield (
            f"Submodules are empty, because Hutch does not fetch them: {_names(paths)}. If they are needed, "
            "allow the host of their address in .gitmodules (--net HOST) and run `git submodule update "
            "--init` in the jail."
        )


def _note_pointers(paths: list[str]) -> Iterable[str]:
    if paths:
        yield f"Files in git-lfs are pointers only: {_names(paths)}."


def _names(paths: list[str]) -> str:
    shown = ", ".join(ascii(path)[1:-1] for path in paths[:MAX_NAMES_IN_NOTE])
    return shown + (f" and {len(paths) - MAX_NAMES_IN_NOTE} more" if len(paths) > MAX_NAMES_IN_NOTE else "")
