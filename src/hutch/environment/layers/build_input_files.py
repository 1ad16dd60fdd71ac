"""The files of a repository that a build sees. They are untrusted, so their number and size are limited."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from hutch.domain.errors import BadRequest, HutchError
from hutch.snapshots.confined_directory import Directory
from hutch.system.lazy_dataclass import dataclass

MAX_FILES = 2000
MAX_BYTES = 64 * 1024 * 1024  # of all files together
FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that decides the content of a layer."""

    path: str
    mode: int  # 0o644, or 0o755 for a program
    content: bytes


def read_inputs(tree: Directory, paths: Iterable[str]) -> list[InputFile]:
    """Read regular files of a tree. Others are left out: links, devices, and files that do not exist."""
    found: list[InputFile] = []
    left = MAX_BYTES
    for path in sorted(set(paths)):
        if not is_input_path(path):
            continue
        try:
            fd = tree.open(path, FLAGS)
        except HutchError:
            continue
        with os.fdopen(fd, "rb") as file:
            about = os.fstat(fd)
            if not stat.S_ISREG(about.st_mode):
                continue
            content = file.read(left + 1)
        left -= len(content)
        if left < 0 or len(found) >= MAX_FILES:
            raise BadRequest(
                f"The inputs of the environment are more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB. "
                "Name fewer in environment.inputs."
            )
        found.append(InputFile(path, 0o755 if about.st_mode & 0o100 else 0o644, content))
    return found


def is_input_path(path: str) -> bool:
    """True for a relative path without `..` that is not inside of git's directory."""
    parts = path.split("/")
    return bool(path) and not any(part in ("", ".", "..") or part.lower() == ".git" for part in parts)


def write_inputs(directory: Path, files: Iterable[InputFile]) -> None:
    """Write the files into a new directory of the host."""
    for file in files:
        path = directory / file.path
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        path.write_bytes(file.content)
        path.chmod(file.mode)
