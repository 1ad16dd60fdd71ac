"""The response to a request that was sent before the HTTP client was loaded."""

import asyncio
import json
from contextlib import suppress
from typing import Any

from hutch.cli.early_session_request import EarlyRequest

CREATED = (b"200", b"201", b"202")
ANSWER_S = 60.0
MAX_ANSWER_BYTES = 1024 * 1024


async def read_answer(request: EarlyRequest) -> dict[str, Any] | None:
    """The session that the server created; None for any other response, or none."""
    try:
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection(sock=request.connection, limit=MAX_ANSWER_BYTES)
            try:
                return await _read(reader)
            finally:
                writer.close()
    except (OSError, TimeoutError, EOFError, ValueError, LookupError, asyncio.LimitOverrunError):
        return None
    finally:
        with suppress(OSError):
            request.connection.close()


async def _read(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    status, *lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
    if status.split()[1] not in CREATED:
        return None
    fields = (line.lower().partition(b":") for line in lines)
    length = next((int(value) for name, _, value in fields if name == b"content-length"), -1)
    if length > MAX_ANSWER_BYTES:
        return None
    answer = json.loads(await reader.readexactly(length))
    return answer if isinstance(answer, dict) else None
