"""Frames of the Debug Adapter Protocol, read from a jail as hostile input.

A frame is a header `Content-Length: N`, an empty line and N bytes of JSON. Everything about it is
bounded: its header, size, depth and number of values. `Throttle` bounds how much is read per second.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from hutch.domain.errors import Unavailable

MAX_HEADER_BYTES = 256
MAX_FRAME_BYTES = 4 << 20
MAX_DEPTH = 32
MAX_VALUES = 50_000
FRAME_COST_BYTES = 2048  # a frame costs as much as that many bytes, however short it is
BURST_BYTES = 8 << 20
STEADY_BYTES_S = 4 << 20
_LENGTH = re.compile(rb"Content-Length: ?([0-9]{1,8})\r\n", re.IGNORECASE)


class BadFrame(Unavailable):
    """A frame that no debug adapter sends. The debugger is ended."""


def encode_frame(message: Mapping[str, Any]) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


class FrameReader:
    """Splits bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._length: int | None = None

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yield the frames that are complete. Raises `BadFrame`."""
        self._buffer += data
        while True:
            if self._length is None:
                end = self._buffer.find(b"\r\n\r\n", 0, MAX_HEADER_BYTES)
                if end < 0:
                    if len(self._buffer) >= MAX_HEADER_BYTES:
                        raise BadFrame("The debug adapter sent a header that is too long.")
                    return
                self._length = _parse_header(bytes(self._buffer[: end + 2]))
                del self._buffer[: end + 4]
            if len(self._buffer) < self._length:
                return
            body = bytes(self._buffer[: self._length])
            del self._buffer[: self._length]
            self._length = None
            yield parse_message(body)


class Throttle:
    """Says how long to wait before more is read. The program in the jail waits meanwhile, as for a slow
    terminal, so that its output can use only a part of the processor time of the host."""

    def __init__(self) -> None:
        self._allowance, self._at = float(BURST_BYTES), time.monotonic()

    def delay_s(self, count: int, frames: int) -> float:
        """Count these bytes and frames; returns the time to wait."""
        now = time.monotonic()
        self._allowance = min(BURST_BYTES, self._allowance + (now - self._at) * STEADY_BYTES_S)
        self._at = now
        self._allowance -= count + frames * FRAME_COST_BYTES
        return max(0.0, -self._allowance / STEADY_BYTES_S)


def parse_message(body: bytes) -> dict[str, Any]:
    """A message as an object of bounded depth and size."""
    if max_depth(body) > MAX_DEPTH:  # before parsing: the parser itself recurses
        raise BadFrame("The debug adapter sent a message that is nested too deeply.")
    if body.count(b",") + body.count(b":") > MAX_VALUES:
        raise BadFrame("The debug adapter sent a message with too many values.")
    try:
        message = json.loads(body, parse_constant=lambda name: None)
    except ValueError:
        raise BadFrame("The debug adapter sent a message that is not JSON.") from None
    if not isinstance(message, dict):
        raise BadFrame("The debug adapter sent a message that is not an object.")
    return message


def max_depth(body: bytes) -> int:
    """An upper bound of the depth of JSON, without parsing it: brackets in strings do not count."""
    depth = deepest = 0
    for match in _TOKENS.finditer(body):
        token = match[0]
        if token in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif token in b"]}":
            depth -= 1
    return deepest


_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)


def _parse_header(header: bytes) -> int:
    found = _LENGTH.fullmatch(header)
    if not found:
        raise BadFrame("The debug adapter sent a header that is not 'Content-Length: N'.")
    length = int(found[1])
    if length > MAX_FRAME_BYTES:
        raise BadFrame(
            f"The debug adapter sent a message of {length} bytes; {MAX_FRAME_BYTES} is the maximum."
        )
    return length
