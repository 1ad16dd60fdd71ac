"""Paths of files in requests: relative to the workspace, with `/`, in UTF-8."""

from typing import Annotated
from urllib.parse import unquote_to_bytes

from fastapi import Depends, Request
from pydantic import Field
from starlette.convertors import Convertor, register_url_convertor

from hutch.domain.errors import BadRequest
from hutch.domain.relative_path import MAX_PATH_BYTES, parse_path

PathText = Annotated[str, Field(max_length=MAX_PATH_BYTES, description="Relative to the workspace.")]


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
