"""Reads the file of a document as text."""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

from hutch.domain.errors import BadRequest, NotFound
from hutch.sessions.file_and_command_requests import ReadFile, Request

MAX_FILE_BYTES = 4 * 1024 * 1024

Call = Callable[[Request[Any], str], Awaitable[Any]]
"""Answers a request about files, as a user."""


class FileText:
    """A file as it is on disk; `sha256` is None if there is none."""

    def __init__(self, data: bytes | None) -> None:
        self.sha256 = None if data is None else hash_of(data)
        text = (data or b"").decode()
        is_crlf = "\r\n" in text and "\n" not in text.replace("\r\n", "")
        self.newline = "\r\n" if is_crlf else "\n"
        self.text = text.replace("\r\n", "\n") if is_crlf else text


async def read_file(path: str, call: Call, by: str) -> FileText:
    parts: list[bytes] = []
    try:
        while True:
            part = await call(ReadFile(path, sum(map(len, parts))), by)
            parts.append(part.data)
            size = sum(map(len, parts))
            if size > MAX_FILE_BYTES or part.size > MAX_FILE_BYTES:
                raise BadRequest(f"'{path}' is larger than {MAX_FILE_BYTES >> 20} MiB. Use a terminal.")
            if size >= part.size or not part.data:
                break
    except NotFound:
        return FileText(None)
    try:
        found = FileText(b"".join(parts))
    except UnicodeDecodeError:
        raise BadRequest(f"'{path}' is not UTF-8 text. Edit it in a terminal, or download it.") from None
    if "\r" in found.text:
        raise BadRequest(f"'{path}' has line ends of several kinds. Edit it in a terminal.")
    if "\0" in found.text:
        raise BadRequest(f"'{path}' is a binary file. Download it.")
    return found


def hash_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
