"""The recording of one terminal in the format asciicast, version 3 (docs.asciinema.org/manual/asciicast/v3).

The first line is a header, every other one an event: seconds since the line before, a code, and a text. The
codes: `o` output, `i` input, `r` a new size, `m` a marker, `x` the exit code. Each command is a marker.
"""

from collections.abc import Iterator

import orjson

from hutch.domain.events import (
    CommandStarted,
    Entry,
    Event,
    EventsOmitted,
    TerminalEnded,
    TerminalOpened,
    TerminalPrinted,
    TerminalResized,
    TerminalTyped,
    UnknownEvent,
    WithheldEvent,
)

MEDIA_TYPE = "application/x-asciicast"
RECORDED_TYPES = ("terminal.opened", "terminal.printed", "terminal.typed", "terminal.resized")
MAX_LABEL_CHARS = 200


class TerminalRecording:
    """Turns the entries of a log, from the opening of a terminal on, into the lines of its recording."""

    def __init__(self, terminal: str) -> None:
        self.terminal = terminal
        self.has_begun = False
        self.has_ended = False  # all lines were made
        self._last_ms = 0

    def lines(self, entry: Entry) -> Iterator[bytes]:
        """The lines for the next entry, often none."""
        event = entry.event
        if self.has_ended:
            return
        if isinstance(event, TerminalOpened) and event.terminal == self.terminal:
            if self.has_begun:  # its end was lost, and another has the same id
                self.has_ended = True
                return
            self.has_begun, self._last_ms = True, entry.at_ms
            yield self._header(entry, event)
        elif self.has_begun and isinstance(event, Event):
            for code, text in self._parts(event):
                yield self._line(entry.at_ms, code, text)
        elif self.has_begun and event.type in RECORDED_TYPES and not isinstance(event, UnknownEvent):
            state = "withheld" if isinstance(event, WithheldEvent) else "erased"
            yield f"# event {entry.seq} ({event.type}) is {state}\n".encode()

    def _header(self, entry: Entry, event: TerminalOpened) -> bytes:
        header = {
            "version": 3,
            "term": {"cols": event.columns, "rows": event.rows, "type": "xterm-256color"},
            "timestamp": entry.at_ms // 1000,
            "title": f"Terminal {self.terminal} of {entry.session_id}",
        }
        return orjson.dumps(header) + b"\n"

    def _parts(self, event: Event) -> Iterator[tuple[str, str]]:
        """The codes and texts of an event."""
        if isinstance(event, EventsOmitted):
            if any(type_ in event.types for type_ in RECORDED_TYPES) or event.cause == "crash":
                yield "m", _label(f"Events are missing here: {event.reason}")
            return
        if getattr(event, "terminal", "") != self.terminal:
            return
        match event:
            case TerminalPrinted(text=text, skipped_bytes=skipped):
                if skipped:
                    yield "m", f"{skipped:,} bytes of output are not recorded"
                yield "o", text
            case TerminalTyped(text=text) if text:
                yield "i", text
            case TerminalResized(columns=columns, rows=rows):
                yield "r", f"{columns}x{rows}"
            case CommandStarted(command=command):
                yield "m", _label(command)
            case TerminalEnded(exit_code=code):
                self.has_ended = True
                if code is not None:
                    yield "x", str(code)

    def _line(self, at_ms: int, code: str, text: str) -> bytes:
        interval_ms, self._last_ms = max(0, at_ms - self._last_ms), max(at_ms, self._last_ms)
        return orjson.dumps([interval_ms / 1000, code, text]) + b"\n"


def _label(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_LABEL_CHARS else f"{line[:MAX_LABEL_CHARS]}…"
