"""The settings file of a repository, and what it may set.

A repository is untrusted: its author may want more memory, a looser network or
another model than the user would grant. So each setting declares whether a
repository may set it, and the file is opened so that it can neither point
elsewhere nor block. Errors in the file are reported and ignored; they never
stop Hutch.
"""

import os
import stat
import tomllib
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from hutch.domain.errors import NotFound

FOLDER, FILE = ".hutch", "config.toml"
MAX_FILE_BYTES = 8 * 1024  # the time to parse a key such as `a.a.a.a` grows with the square of its length


class RepositoryAccess(StrEnum):
    """The right of a repository to change a setting. NEVER unless the setting declares otherwise."""

    FREE = "set it"
    TIGHTEN = "only tighten it"
    NEVER = "not touch it"


class UnusableFile(Exception):
    """The repository's file cannot be used at all; the message says why."""


def config_file(repo: Path) -> Path:
    return repo / FOLDER / FILE


def read(repo: Path) -> dict[str, Any]:
    """The settings in the repository's file; empty when it has none."""
    try:
        root = os.open(repo, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise NotFound(
            f"Repository {str(repo)!r} cannot be opened ({error.strerror}). Name a directory."
        ) from None
    try:
        raw = _read_beneath(root)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UnusableFile(f"it cannot be opened ({error.strerror}, or it is a symbolic link)") from None
    finally:
        os.close(root)
    return parse(raw)


def parse(raw: bytes) -> dict[str, Any]:
    """The settings in the content of a file."""
    if len(raw) > MAX_FILE_BYTES:
        raise UnusableFile(f"it is larger than {MAX_FILE_BYTES // 1024} KiB")
    try:
        return tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as error:  # broken TOML, not UTF-8, absurd numbers or nesting
        raise UnusableFile(f"it is not valid TOML ({describe_toml_error(error)})") from None


def describe_toml_error(error: ValueError | RecursionError) -> str:
    """Why a file is not TOML."""
    match error:
        case tomllib.TOMLDecodeError():
            return str(error)[:200]
        case UnicodeDecodeError():
            return "it is not text in UTF-8"
        case _:
            return "a number in it is too large, or its lists are nested too deep"


def _read_beneath(root: int) -> bytes:
    """Open folder and file by descriptor: links are not followed, and a fifo does not block."""
    careful = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    folder = os.open(FOLDER, careful | os.O_DIRECTORY, dir_fd=root)
    try:
        descriptor = os.open(FILE, careful, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnusableFile("it is not a regular file")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_FILE_BYTES + 1)
    finally:
        os.close(descriptor)


def is_tighter(new: object, present: object) -> bool:
    """True if `new` allows nothing that `present` does not: a lower limit, or fewer hosts."""
    if isinstance(new, int | float):
        return present is None or (isinstance(present, int | float) and new <= present)
    if isinstance(new, Sequence) and isinstance(present, Sequence):
        return all(any(covers(have, requested) for have in present) for requested in new)
    return False


def covers(pattern: str, hosts: str) -> bool:
    """True if `pattern` matches every host that `hosts` matches: `*.a.org` covers `x.a.org`."""
    return pattern == hosts or (pattern.startswith("*.") and hosts.endswith(pattern[1:]))
