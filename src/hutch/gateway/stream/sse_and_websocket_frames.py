"""The frames of a stream as bytes and text. Pure functions.

Events over SSE and over a WebSocket have the same JSON in different envelopes.
"""

import re
from typing import Any

import orjson

from hutch.domain.errors import BadRequest, HutchError, TooManyRequests
from hutch.domain.log_entry_audience import entry_json
from hutch.domain.one_line_text import echo
from hutch.gateway.http_error_table import error_status
from hutch.gateway.request_and_response_bodies import MAX_SIZE
from hutch.sessions.interface import Delta, Update

RETRY_MS = 2000  # after which a browser reconnects
HEARTBEAT = b": still here\n\n"

_PLAIN = re.compile(r"[a-z0-9_.]{1,100}", re.ASCII)


def sse_opening() -> bytes:
    """The first bytes of an SSE stream."""
    return b"retry: %d\n\n" % RETRY_MS


def sse(update: Update) -> bytes:
    """An entry with its number, from which a browser resumes; a delta without one."""
    if isinstance(update, Delta):
        return b"event: delta\ndata: %b\n\n" % delta_json(update)
    kind = update.event.type if _PLAIN.fullmatch(update.event.type) else "message"
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (update.seq, kind.encode(), entry_json(update))


def sse_control(kind: str, **data: Any) -> bytes:
    """A message of the server itself: `end`, `closing`, `refused`, `damaged`."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps(data))


def update_frame(update: Update) -> str:
    """An update as a text frame of a WebSocket."""
    if isinstance(update, Delta):
        return '{"type":"delta",' + delta_json(update).decode()[1:]
    return '{"type":"entry",' + entry_json(update).decode()[1:]


def control_frame(kind: str, **data: Any) -> str:
    """Any other text frame of a WebSocket."""
    return orjson.dumps({"type": kind, **data}).decode()


def error_frame(error: HutchError, clean: Any = str, **more: Any) -> str:
    """An error; the stream continues."""
    if isinstance(error, TooManyRequests):
        more["retry_after_s"] = error.retry_after_s
    return control_frame("error", code=error_status(error).code, detail=clean(str(error)), **more)


def delta_json(delta: Delta) -> bytes:
    return orjson.dumps(
        {
            "run_id": delta.run_id,
            "turn": delta.turn,
            "kind": delta.kind,
            "text": delta.text,
            "call_id": delta.call_id,
            "tool": delta.tool,
        }
    )


def parse_frame(text: str | bytes) -> dict[str, Any]:
    """Parse a client's text frame: an object with a type."""
    try:
        frame = orjson.loads(text)
    except ValueError:
        raise BadRequest('This frame is not JSON. Send objects such as {"type":"ping"}.') from None
    if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
        raise BadRequest('A frame is an object with a type, such as {"type":"ping"}.')
    return frame


def parse_number(frame: dict[str, Any], name: str, minimum: int, maximum: int) -> int:
    """A whole number in a frame."""
    value = frame.get(name)
    if type(value) is not int or not minimum <= value <= maximum:
        raise BadRequest(f"`{name}` of a {frame['type'][:40]} is a whole number from {minimum} to {maximum}.")
    return value


def parse_position(text: str | None, name: str) -> int | None:
    """Parse a position in a log or a terminal from a query or a header."""
    if text is None or text == "":
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 19 or int(text) > MAX_SIZE:
        raise BadRequest(f"{name} is the number of an event or a byte, not {echo(text, 40)}.")
    return int(text)


def last_seq(update: Update, before: int) -> int:
    """The position after this update."""
    return before if isinstance(update, Delta) else update.seq
