"""Fixtures for tests of preparation: a home for workspaces, repositories, and a comparison of every byte."""

import hashlib
import os
import stat
from pathlib import Path

from hutch.forge.host_git import Git
from hutch.workspace.lifecycle.workspace_filling import Options
from hutch.workspace.lifecycle.workspace_record_and_directories import Home
from tests.forge.repositories import make_repository

HOST = Git({"PATH": os.defpath})
COPY, OVERLAY = Options(mode="copy"), Options(mode="overlay")
MEMORY = Options(mode="overlay", storage="memory", quota_bytes=8 << 20, quota_files=500)

FILES = {
    "README.md": "# A project\n",
    "src/main.py": "print('hello')\n",
    "src/deep/er/module.py": "x = 1\n" * 100,
    "data/large.bin": b"\0\1\2\3" * 50_000,
    "with space/a\nb.txt": "odd\n",
}


def make_home(directory: Path) -> Home:
    home = Home(directory / "data")
    home.make()
    return home


def make_project(directory: Path) -> str:
    """A small repository. Returns its commit."""
    return make_repository(directory, FILES)


def content(directory: Path, *, skip: str = ".git") -> dict[str, str | bytes]:
    """Every file's bytes and every link's target, without what is below `skip`."""
    found: dict[str, str | bytes] = {}
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
        if name.split("/")[0] == skip or (path.is_dir() and not path.is_symlink()):
            continue
        found[name] = str(path.readlink()) if path.is_symlink() else path.read_bytes()
    return found


def fingerprint(directory: Path) -> dict[str, tuple[object, ...]]:
    """All there is to know about a tree: whatever changes one bit of it changes this."""
    found = {}
    for path in [directory, *sorted(directory.rglob("*"))]:
        about = path.lstat()
        body = b""
        if stat.S_ISREG(about.st_mode):
            body = hashlib.sha256(path.read_bytes()).digest()
        elif stat.S_ISLNK(about.st_mode):
            body = os.fsencode(path.readlink())
        attributes = {name: os.getxattr(path, name, follow_symlinks=False) for name in _names(path)}
        found[str(path.relative_to(directory))] = (
            *(about.st_mode, about.st_uid, about.st_gid, about.st_size, about.st_nlink),
            *(about.st_mtime_ns, about.st_ino, body, tuple(sorted(attributes.items()))),
        )
    return found


def _names(path: Path) -> list[str]:
    return os.listxattr(path, follow_symlinks=False)
