"""The files that a session starts with, in the body of a request."""

import base64
import binascii
from typing import Annotated

from pydantic import Discriminator, Field, Tag, model_validator

from hutch.domain.errors import BadRequest
from hutch.domain.one_line_text import echo
from hutch.domain.relative_path import MAX_PATH_BYTES
from hutch.domain.user_given_starter_files import (
    MAX_BYTES,
    MAX_FILES,
    StarterFile,
    StarterFiles,
    check_starter_files,
)
from hutch.gateway.request_and_response_bodies import In
from hutch.gateway.rest.request_file_paths import PathText

ABOUT_FILES = (
    "The files to start with, instead of a repository: an object of texts by their paths, or a list. At most "
    f"{MAX_FILES:,} files of {MAX_BYTES // 1024**2} MiB together."
)


class FileIn(In):
    """A file that a session starts with, either as text or as base64."""

    path: PathText
    text: str | None = None
    base64: str | None = Field(None, description="Any bytes, in base64 with padding.")
    executable: bool = False

    @model_validator(mode="after")
    def _check_content(self) -> "FileIn":
        if (self.text is None) == (self.base64 is None):
            raise ValueError("A file has either text or base64")
        return self


_ByPath = dict[Annotated[str, Field(max_length=MAX_PATH_BYTES)], str]
FilesIn = Annotated[
    Annotated[_ByPath, Tag("object")] | Annotated[list[FileIn], Tag("list")],
    Discriminator(lambda value: "list" if isinstance(value, list) else "object"),
]


def starter_files(files: dict[str, str] | list[FileIn]) -> StarterFiles:
    """The files of a request, checked. Blocks the thread while it decodes."""
    if isinstance(files, dict):
        return check_starter_files((path, StarterFile(_encode(path, text))) for path, text in files.items())
    return check_starter_files((file.path, StarterFile(_content(file), file.executable)) for file in files)


def _content(file: FileIn) -> bytes:
    if file.base64 is None:
        return _encode(file.path, file.text or "")
    try:
        return base64.b64decode(file.base64, validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest(f"The content of {echo(file.path, 200)} is not base64 with padding.") from None


def _encode(path: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"The text of {echo(path, 200)} is not Unicode. Send it as base64.") from None
