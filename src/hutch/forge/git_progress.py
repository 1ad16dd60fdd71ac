"""Reads git's progress from its standard error."""

import re
from collections.abc import Callable

from hutch.system.lazy_dataclass import dataclass

LINE = re.compile(
    rb"(?:remote: )?([A-Z][A-Za-z -]{2,40}): +(?:\d{1,3}% \((\d{1,15})/(\d{1,15})\)|(\d{1,15}))"
)
MAX_MESSAGE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Progress:
    """A step in progress: "Receiving objects", 120 of 400. `total` is None if unknown."""

    step: str
    done: int
    total: int | None = None


OnProgress = Callable[[Progress], None]


class StderrParser:
    """Splits git's standard error: reports progress, and keeps the last other messages."""

    def __init__(self, on_progress: OnProgress | None) -> None:
        self._on_progress = on_progress
        self._rest = b""
        self._messages: list[bytes] = []
        self._message_bytes = 0

    def feed(self, data: bytes) -> None:
        # Progress lines end with a carriage return. The content is controlled by the server.
        *lines, self._rest = re.split(rb"[\r\n]+", self._rest + data)
        if len(self._rest) > MAX_MESSAGE_BYTES:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            self._take(line)

    def messages(self) -> str:
        """The last lines that are no progress."""
        lines = [*self._messages, self._rest]
        return b"\n".join(line for line in lines if line.strip()).decode(errors="replace")

    def _take(self, line: bytes) -> None:
        if found := LINE.match(line):
            if self._on_progress is not None:
                done, total = found[2] or found[4], found[3]
                self._on_progress(Progress(found[1].decode(), int(done), int(total) if total else None))
            return
        self._messages.append(line[:MAX_MESSAGE_BYTES])
        self._message_bytes += len(line)
        while self._message_bytes > MAX_MESSAGE_BYTES and len(self._messages) > 1:
            self._message_bytes -= len(self._messages.pop(0))
