"""Paths of files in requests: relative to the workspace, with `/`, in UTF-8."""

import os
from typing import Annotated
from urllib.parse import unquote_to_bytes

from fastapi import Depends, Request
from pydantic import Field
from starlette.convertors import Convertor, register_url_convertor

from hutch.domain.errors import BadRequest

MAX_LENGTH = 4096

PathText = Annotated[str, Field(max_length=MAX_LENGTH, description="Relative to the workspace.")]


def parse_path(text: str, *, or_root: bool = False) -> str:
    """Check a path from a request. The kernel confines it anyway; this explains what is wrong with it."""
    if "\0" in text:
        raise BadRequest("A path cannot contain NUL.")
    if len(os.fsencode(text)) >= MAX_LENGTH:
        raise BadRequest(f"A path must have fewer than {MAX_LENGTH} bytes.")
    if text.startswith("/"):
        raise BadRequest("A path is relative to the workspace and does not begin with '/'.")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise BadRequest("A path cannot contain '..'. Write it relative to the workspace.")
    if not parts and not or_root:
        raise BadRequest("The path of a file is missing.")
    return "/".join(parts)


def of_url(request: Request, path: str) -> str:
    """The path at the end of a URL, from its bytes: in `path`, invalid UTF-8 was replaced."""
    raw = request.scope.get("raw_path") or b""
    try:
        unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise BadRequest("A path in a URL must be UTF-8, percent-encoded. This one is not.") from None
    return parse_path(path)


class FileConvertor(Convertor[str]):
    """Matches the rest of a URL. The library's own convertor stops at a newline."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("file", FileConvertor())
FilePath = Annotated[str, Depends(of_url)]
