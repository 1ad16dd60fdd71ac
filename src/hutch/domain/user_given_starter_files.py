"""The files that a session without a repository starts with, given with the request for it.

They are checked in one place, because they come from requests and from the command line.
"""

from collections.abc import Iterable, Mapping

from hutch.domain.errors import BadRequest, LimitReached
from hutch.domain.one_line_text import echo
from hutch.domain.relative_path import parse_path
from hutch.system.lazy_dataclass import dataclass

MAX_FILES = 1000
MAX_BYTES = 8 * 1024 * 1024  # of all together
MAX_NAME_BYTES = 255  # the limit of Linux for one part of a path
ADVICE = "Use a repository, or write more files into the session later."


@dataclass(frozen=True, slots=True)
class StarterFile:
    """The content of a file that is not written yet."""

    content: bytes
    executable: bool = False


StarterFiles = Mapping[str, StarterFile]
NO_FILES: StarterFiles = {}


def check_starter_files(files: Iterable[tuple[str, StarterFile]]) -> dict[str, StarterFile]:
    """The files by their normalized paths. Refuses too many, too large, and paths that cannot be written."""
    checked: dict[str, StarterFile] = {}
    total = 0
    for text, file in files:
        path = _check_path(text)
        if path in checked:
            raise BadRequest(f"Two starter files have the path {echo(path, 200)}. Omit one.")
        total += len(file.content)
        if total > MAX_BYTES:
            raise LimitReached(
                f"Starter files have at most {MAX_BYTES // 1024**2} MiB together; these have more. {ADVICE}",
                limit="starter_files_bytes",
            )
        checked[path] = file
        if len(checked) > MAX_FILES:
            raise LimitReached(
                f"A session starts with at most {MAX_FILES} files, and these are more. {ADVICE}",
                limit="starter_files",
            )
    _check_directories(checked)
    return checked


def _check_path(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"The path of the starter file {echo(text, 200)} is not UTF-8. Rename it.") from None
    try:
        path = parse_path(text)
    except BadRequest as error:
        raise BadRequest(f"The starter file {echo(text, 200)} cannot be written: {error}") from None
    if any(len(part.encode()) > MAX_NAME_BYTES for part in path.split("/")):
        raise BadRequest(
            f"A part of the path {echo(text, 200)} has more than {MAX_NAME_BYTES} bytes. Shorten it."
        )
    if text.endswith("/"):
        raise BadRequest(f"{echo(text, 200)} is a directory. Name the files in it; it is created with them.")
    return path


def _check_directories(files: StarterFiles) -> None:
    for path in files:
        above = path.rpartition("/")[0]
        while above:
            if above in files:
                raise BadRequest(
                    f"{echo(above, 200)} cannot be a file and the directory of {echo(path, 200)}. "
                    "Rename one of them."
                )
            above = above.rpartition("/")[0]
