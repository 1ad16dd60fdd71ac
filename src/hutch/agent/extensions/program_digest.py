"""The digest of the files that an extension runs: its program, and all files below its paths.

It is computed when an extension is tried, and again each time before it starts. Compiled Python files count
too: they run instead of their sources.
"""

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from hutch.agent.extensions.extension_manifest import Manifest
from hutch.domain.errors import BadRequest, LimitReached
from hutch.jail.policy import PATH

MAX_FILES = 200_000
CHUNK_BYTES = 1024 * 1024


def program_digest(manifest: Manifest) -> str:
    """The digest of what runs; empty for a server elsewhere. Blocks the thread."""
    if manifest.kind == "http":
        return ""
    whole = hashlib.sha256()
    for count, (name, kind, content) in enumerate(_parts(manifest)):
        if count > MAX_FILES:
            raise LimitReached(
                f"Extension {manifest.name} has more than {MAX_FILES:,} files below its paths.",
                limit="extension_files",
            )
        whole.update(f"{len(name)}:{name}:{kind}:{content}\n".encode(errors="surrogateescape"))
    return whole.hexdigest()


def find_program(manifest: Manifest) -> str:
    """The path of the program."""
    program = manifest.argv[0]
    found = program if program.startswith("/") else shutil.which(program, path=PATH)
    if found is None or not Path(found).is_file():
        raise BadRequest(
            f"Extension {manifest.name}: there is no program '{program}'. Give its absolute path in command."
        )
    return found


def _parts(manifest: Manifest) -> Iterator[tuple[str, str, str]]:
    """The name, the kind and the digest of each file."""
    program = find_program(manifest)
    named = [program, os.path.realpath(program), *_files_in(manifest.argv[1:])]
    for name in dict.fromkeys(named):
        yield _part(name, Path(name).stat())
    for top in sorted(manifest.paths):
        if not Path(top).exists():
            raise BadRequest(f"Extension {manifest.name}: its path {top} does not exist.")
        yield _part(top, os.lstat(top))
        for directory, folders, files in os.walk(top):
            folders.sort()
            for each in sorted([*files, *folders]):
                path = f"{directory}/{each}"
                yield _part(path, os.lstat(path))


def _files_in(words: Sequence[str]) -> list[str]:
    """The arguments that are files."""
    return [each for each in words if each.startswith("/") and Path(each).is_file()]


def _part(path: str, status: os.stat_result) -> tuple[str, str, str]:
    mode = f"{status.st_mode:o}"
    if stat.S_ISLNK(status.st_mode):
        return path, mode, str(Path(path).readlink())
    if not stat.S_ISREG(status.st_mode):
        return path, mode, ""
    content = hashlib.sha256()
    try:
        with Path(path).open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                content.update(chunk)
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}.") from None
    return path, mode, content.hexdigest()
