"""Answers messages of MCP clients that the library cannot parse.

The library drops them, and their clients would wait for ever. So each gets an error as
JSON-RPC requires, with the id of the message if it can be found.
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
    """None if the library can parse a message; else the response, which may be empty."""
    try:
        read = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except (ValidationError, ValueError, RecursionError):
        return _refusal(line)
    # The library takes a message whose id is neither a string nor an integer for a notification.
    is_odd = isinstance(read, JSONRPCNotification) and b'"id"' in line and "id" in json.loads(line)
    return _refusal(line) if is_odd else None


def too_long(head: bytes, tail: bytes) -> bytes:
    """The response to a message that is too long to store; only its beginning and end are known."""
    return _answer(_id(head, tail), NOT_A_REQUEST, f"A message has at most {MAX_BYTES // 1024**2} MiB.")


def _refusal(line: bytes) -> bytes:
    found = _id(line[:HEAD_BYTES], line[-TAIL_BYTES:])
    try:
        message: Any = json.loads(line.decode(), parse_int=_number, strict=False)
    except RecursionError:
        return _answer(found, NOT_A_REQUEST, "The message is nested too deeply.")
    except ValueError as error:
        why = "not UTF-8" if isinstance(error, UnicodeDecodeError) else "not JSON"
        return _answer(found, NOT_JSON, f"The message is {why}.")
    if isinstance(message, list):
        return _answer(None, NOT_A_REQUEST, "Send one message per line, not a list of messages.")
    if not isinstance(message, dict):
        return _answer(None, NOT_A_REQUEST, "A message must be a JSON object.")
    if "result" in message or "error" in message or ("method" in message and "id" not in message):
        return b""  # a response or a notification: its client expects no response
    id_ = message.get("id")
    usable = isinstance(id_, str | int) and not isinstance(id_, bool)
    return _answer(
        id_ if usable else None,
        NOT_A_REQUEST,
        "The message cannot be parsed. Perhaps it is nested too deeply, or contains a number with thousands "
        "of digits, a lone surrogate or a control character.",
    )


def _number(digits: str) -> int | None:
    return int(digits) if len(digits) <= MAX_NUMBER else None


def _id(head: bytes, tail: bytes) -> Any:
    """The id of a message that cannot be parsed, if it is at the beginning or the end."""
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
