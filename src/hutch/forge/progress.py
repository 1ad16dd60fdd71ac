"""How far git has come, read from what it prints for people."""

import re
from collections.abc import Callable
from dataclasses import dataclass

LINE = re.compile(
    rb"(?:remote: )?([A-Z][A-Za-z -]{2,40}): +(?:\d{1,3}% \((\d{1,15})/(\d{1,15})\)|(\d{1,15}))"
)
MAX_MESSAGE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Progress:
    """A step that is being made: "Receiving objects", 120 of 400. `total` is None when nobody knows."""

    step: str
    done: int
    total: int | None = None


OnProgress = Callable[[Progress], None]


class StderrParser:
    """Takes git's standard error apart: progress is told, and the last of the rest is kept."""

    def __init__(self, on_progress: OnProgress | None) -> None:
        self._on_progress = on_progress
        self._rest = b""
        self._said: list[bytes] = []
        self._said_bytes = 0

    def feed(self, data: bytes) -> None:
        # A line may end with a carriage return, to be written over by the next; a server decides what comes.
        *lines, self._rest = re.split(rb"[\r\n]+", self._rest + data)
        if len(self._rest) > MAX_MESSAGE_BYTES:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            self._take(line)

    def messages(self) -> str:
        """What was said that was no progress, the last of it."""
        lines = [*self._said, self._rest]
        return b"\n".join(line for line in lines if line.strip()).decode(errors="replace")

    def _take(self, line: bytes) -> None:
        if found := LINE.match(line):
            if self._on_progress is not None:
                done, total = found[2] or found[4], found[3]
                self._on_progress(Progress(found[1].decode(), int(done), int(total) if total else None))
            return
        self._said.append(line[:MAX_MESSAGE_BYTES])
        self._said_bytes += len(line)
        while self._said_bytes > MAX_MESSAGE_BYTES and len(self._said) > 1:
            self._said_bytes -= len(self._said.pop(0))
