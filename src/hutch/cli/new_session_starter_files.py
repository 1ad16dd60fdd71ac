"""Reads the local files that a new session starts with: `--file PATH` and `--files DIRECTORY`."""

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from hutch.domain.errors import BadRequest, NotFound
from hutch.domain.secret_file_names import has_secret_name
from hutch.domain.user_given_starter_files import (
    MAX_BYTES,
    MAX_FILES,
    StarterFile,
    StarterFiles,
    check_starter_files,
)
from hutch.system.terminal_safe_text import visible

FileOption = Annotated[
    list[str] | None,
    typer.Option(
        "--file", metavar="PATH", help="Start with this local file, without a repository; may be repeated."
    ),
]
FilesOption = Annotated[
    str | None,
    typer.Option(
        "--files",
        metavar="DIR",
        help="Start with the files of this local directory, except those with names of secrets.",
    ),
]
OWN_DIRECTORY = ".git"
MAX_NAMES_SHOWN = 5


def read_starter_files(
    files: Sequence[str] | None, directory: str | None, *, repository: str = ""
) -> StarterFiles:
    """The files that these options name; empty without them. They cannot be combined with a repository."""
    if not files and directory is None:
        return {}
    if repository:
        raise BadRequest(
            "A session starts from a repository or from files, not from both. Omit --repo, or --file and "
            "--files."
        )
    left_out: list[str] = []
    found = [*_below(Path(directory).expanduser(), left_out)] if directory is not None else []
    named = {Path(file).expanduser().resolve() for file in files or ()}
    left_out = [
        path for path in left_out if (Path(directory or "").expanduser() / path).resolve() not in named
    ]
    if left_out:
        sys.stderr.write(f"hutch: {_describe_left_out(left_out)}\n")
    found += [(_name(file), _read(Path(file).expanduser())) for file in files or ()]
    if not found:
        raise BadRequest(f"The directory {visible(directory or '')!r} has no files. Omit --files.")
    return check_starter_files(found)


def _name(text: str) -> str:
    """The path in the session: as given, or only the name if it leads out of the current directory."""
    path = Path(text).expanduser()
    return path.name if path.is_absolute() or ".." in path.parts else path.as_posix()


def _describe_left_out(paths: Sequence[str]) -> str:
    named = ", ".join(visible(path) for path in paths[:MAX_NAMES_SHOWN])
    more = f" and {len(paths) - MAX_NAMES_SHOWN} more" if len(paths) > MAX_NAMES_SHOWN else ""
    return (
        f"{named}{more} {'is' if len(paths) == 1 else 'are'} left out: the name is typical of secrets. "
        "Add --file PATH to give such a file to the agent."
    )


def _below(directory: Path, left_out: list[str]) -> Iterator[tuple[str, StarterFile]]:
    """The files of a directory. Those with names of secrets are added to `left_out` instead."""
    if not directory.is_dir():
        wrong = "is not a directory; name a file with --file" if directory.exists() else "does not exist"
        raise NotFound(f"{visible(str(directory))!r} {wrong}.")
    count = total = 0
    for above, names, files in os.walk(directory, onerror=_refuse):
        names[:] = sorted(name for name in names if name != OWN_DIRECTORY)
        for link in [name for name in names if (Path(above) / name).is_symlink()]:
            _refuse_link(Path(above) / link)
        for name in sorted(files):
            path = Path(above) / name
            if has_secret_name(name):
                left_out.append(path.relative_to(directory).as_posix())
                continue
            file = _read(path)
            count, total = count + 1, total + len(file.content)
            yield path.relative_to(directory).as_posix(), file
            if count > MAX_FILES or total > MAX_BYTES:  # the check of all of them refuses it; stop reading
                return


def _read(path: Path) -> StarterFile:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotFound(f"There is no local file {visible(str(path))!r}.") from None
    except OSError as error:
        if path.is_symlink():
            _refuse_link(path)
        raise BadRequest(f"{visible(str(path))!r} cannot be read: {error.strerror}.") from None
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise BadRequest(
            f"{visible(str(path))!r} is not a file. Name a directory with --files; devices, pipes and "
            "sockets cannot be given."
        )
    with os.fdopen(fd, "rb") as file:
        return StarterFile(file.read(MAX_BYTES + 1), bool(mode & stat.S_IXUSR))


def _refuse(error: OSError) -> None:
    raise BadRequest(f"{visible(str(error.filename))!r} cannot be read: {error.strerror}.")


def _refuse_link(path: Path) -> None:
    raise BadRequest(
        f"{visible(str(path))!r} is a symbolic link, and only files can be given. Replace it by its target, "
        "or use a repository."
    )
