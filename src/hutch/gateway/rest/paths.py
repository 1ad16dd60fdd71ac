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
    """A path that came from outside. The kernel keeps it inside anyhow; this says what is wrong with it."""
    if "\0" in text:
        raise BadRequest("A path cannot hold a NUL.")
    if len(os.fsencode(text)) >= MAX_LENGTH:
        raise BadRequest(f"A path has less than {MAX_LENGTH} bytes.")
    if text.startswith("/"):
        raise BadRequest("A path begins in the workspace, without a '/' before it.")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise BadRequest("A path with '..' in it may lead anywhere. Name the file from the workspace on.")
    if not parts and not or_root:
        raise BadRequest("This needs the path of a file.")
    return "/".join(parts)


def of_url(request: Request, path: str) -> str:
    """The path at the end of an address, from its bytes: what is no UTF-8 was replaced in `path`."""
    raw = request.scope.get("raw_path") or b""
    try:
        unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise BadRequest("A path in an address is UTF-8, percent-encoded. This one is not.") from None
    return parse_path(path)


class FileConvertor(Convertor[str]):
    """All the rest of an address. The one that comes with the library stops at a newline."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("file", FileConvertor())
FilePath = Annotated[str, Depends(of_url)]
