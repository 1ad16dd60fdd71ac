"""Messages of MCP clients that the library cannot read.

It throws them away, and whoever sent one waits for ever. So each is answered as
JSON-RPC says, with the id that it has if that can be found.
"""

import json
import re
from typing import Any

from mcp.types import JSONRPCNotification, jsonrpc_message_adapter
from pydantic import ValidationError

MAX_BYTES = 16 * 1024 * 1024  # of one message
NOT_JSON, NOT_A_REQUEST = -32700, -32600
HEAD_BYTES, TAIL_BYTES = 1024, 300  # of a message, where its id may be
ID = rb'"id"\s*:\s*("(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]){0,200}"|-?\d{1,18})'
FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + ID + rb"\s*[,}]")
LAST = re.compile(rb",\s*" + ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
MAX_NUMBER = 18


def refusal(line: bytes) -> bytes | None:
    """None when the library can read a message; else what to answer, which may be nothing."""
    try:
        read = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except (ValidationError, ValueError, RecursionError):
        return _refusal(line)
    # One whose id is neither text nor a whole number is taken for a notice.
    is_odd = isinstance(read, JSONRPCNotification) and b'"id"' in line and "id" in json.loads(line)
    return _refusal(line) if is_odd else None


def too_long(head: bytes, tail: bytes) -> bytes:
    """The answer to a message that nobody has kept: only its begin and its end are known."""
    return _answer(_id(head, tail), NOT_A_REQUEST, f"A message may have {MAX_BYTES // 1024**2} MiB.")


def _refusal(line: bytes) -> bytes:
    found = _id(line[:HEAD_BYTES], line[-TAIL_BYTES:])
    try:
        message: Any = json.loads(line.decode(), parse_int=_number, strict=False)
    except RecursionError:
        return _answer(found, NOT_A_REQUEST, "The message is nested too deep.")
    except ValueError as error:
        why = "not UTF-8" if isinstance(error, UnicodeDecodeError) else "no JSON"
        return _answer(found, NOT_JSON, f"The message is {why}.")
    if isinstance(message, list):
        return _answer(None, NOT_A_REQUEST, "Send one message a line, and no list of them.")
    if not isinstance(message, dict):
        return _answer(None, NOT_A_REQUEST, "A message is a JSON object.")
    if "result" in message or "error" in message or ("method" in message and "id" not in message):
        return b""  # an answer, or a notice: nobody waits for a word about it
    id_ = message.get("id")
    usable = isinstance(id_, str | int) and not isinstance(id_, bool)
    return _answer(
        id_ if usable else None,
        NOT_A_REQUEST,
        "The message cannot be read. Perhaps it is nested too deep, or holds a number with thousands of "
        "digits, half of a letter (a lone surrogate) or a control character.",
    )


def _number(digits: str) -> int | None:
    return int(digits) if len(digits) <= MAX_NUMBER else None


def _id(head: bytes, tail: bytes) -> Any:
    """The id of a message that is no JSON to us, where it stands at the begin or at the end."""
    found = FIRST.match(head) or LAST.search(tail)
    try:
        return json.loads(found[1]) if found else None
    except ValueError:
        return None


def _answer(id_: Any, code: int, message: str) -> bytes:
    return (
        json.dumps({"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": message}}).encode()
        + b"\n"
    )
