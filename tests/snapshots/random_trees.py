"""Directories on disk, described, made up and changed at random."""

import os
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

Described = dict[str, tuple[str, int, bytes]]


def describe(tree: Path) -> Described:
    """Everything below a directory: kind, permissions, content."""
    found: Described = {}
    waiting = [tree]
    while waiting:
        for path in waiting.pop().iterdir():
            info = path.lstat()
            name, mode = str(path.relative_to(tree)), stat.S_IMODE(info.st_mode)
            if stat.S_ISDIR(info.st_mode):
                found[name] = ("directory", mode, b"")
                waiting.append(path)
            elif stat.S_ISLNK(info.st_mode):
                found[name] = ("link", 0, os.fsencode(path.readlink()))
            elif stat.S_ISREG(info.st_mode):
                found[name] = ("file", mode, path.read_bytes())
            else:
                found[name] = ("other", mode, b"")
    return found


NAMES = [
    *("a", "b", "c.txt", "d", "ignored", "new\nline", os.fsdecode(b"\xff\xfe"), "ü", " ", "-x", "a b"),
    *(".git", ".GIT", "git~1", ".gitignore", "+a", "=", "quote\"'", "back\\slash", "*"),
]
CONTENTS = [b"", b"x", b"one\n", b"two\n", b"\0binary\0", b"ignored\n*.txt\n", b"y" * 3000, b"Z" * 9000]
TARGETS = ["a", "../outside", "/etc/passwd", "nowhere", os.fsdecode(b"\xff"), "."]
# An ordinary user can neither read paths with these modes, nor create files there.
FOR_ROOT = [0o000] if os.geteuid() == 0 else []
DIRECTORIES_FOR_ROOT = [0o555] if os.geteuid() == 0 else []
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)


@dataclass(frozen=True)
class Make:
    """Put something at a path, whatever was there or above it."""

    path: str
    kind: str
    content: bytes | str
    mode: int


@dataclass(frozen=True)
class Remove:
    """Remove the file or directory at a path, if any."""

    path: str


makes = st.one_of(
    st.builds(
        Make,
        path=paths,
        kind=st.just("file"),
        content=st.sampled_from(CONTENTS),
        mode=st.sampled_from([0o644, 0o755, 0o600, 0o444, 0o664, 0o700, *FOR_ROOT]),
    ),
    st.builds(Make, path=paths, kind=st.just("link"), content=st.sampled_from(TARGETS), mode=st.just(0)),
    st.builds(
        Make,
        path=paths,
        kind=st.just("directory"),
        content=st.just(b""),
        mode=st.sampled_from([0o755, 0o700, 0o775, 0o1777, *DIRECTORIES_FOR_ROOT]),
    ),
)
changes = st.one_of(makes, st.builds(Remove, path=paths))


def apply(tree: Path, change: Make | Remove) -> None:
    path = tree / change.path
    if isinstance(change, Remove):
        if all(_is_directory(above) for above in path.parents if above.is_relative_to(tree)):
            discard(path)
        return
    for above in reversed([above for above in path.parents if above.is_relative_to(tree)]):
        if not _is_directory(above):
            discard(above)
            above.mkdir(0o755)
    if change.kind == "directory":
        if not _is_directory(path):
            discard(path)
            path.mkdir()
        path.chmod(change.mode)
        return
    discard(path)
    if isinstance(change.content, str):
        path.symlink_to(change.content)
    else:
        path.write_bytes(change.content)
        path.chmod(change.mode)


def discard(path: Path) -> None:
    if _is_directory(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def git(*words: str, cwd: Path, stdin: bytes = b"", **environment: str) -> str:
    """Git as a user would run it, without the settings of this machine."""
    ran = subprocess.run(
        ["git", *words],
        cwd=cwd,
        input=stdin,
        env={
            "PATH": os.defpath,
            "HOME": "/nonexistent",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            **{f"GIT_{who}_{what}": "x@y.z" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
            **environment,
        },
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, (words, ran.stderr)
    return ran.stdout.decode("utf-8", "surrogateescape").strip()


def write_tree(tree: Path, index: Path) -> str:
    """The tree that git makes of a directory with nothing but files."""
    shutil.rmtree(index, ignore_errors=True)
    git("init", "-q", "--bare", str(index), cwd=tree)
    place = {"GIT_DIR": str(index), "GIT_WORK_TREE": str(tree)}
    git("-c", "core.excludesFile=/dev/null", "add", "-A", ".", cwd=tree, **place)
    return git("write-tree", cwd=tree, **place)
