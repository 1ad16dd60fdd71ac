"""One stream of text on its way to the log: decoded, without secrets, and within a budget of bytes."""

import codecs
import re
import time
from collections.abc import Callable
from dataclasses import field

from hutch.domain.events import Event
from hutch.domain.stream_redactor import StreamRedactor
from hutch.system.lazy_dataclass import dataclass

CHUNK_CHARS = 8 * 1024  # an event of this size fits into the database itself
BURST_BYTES = 256 * 1024
STEADY_BYTES_S = 128 * 1024
END_BYTES = 8 * 1024  # at the end of omitted output, which are written
MAX_ENDS_BYTES = 64 * 1024  # that all such ends may take beyond the rate
CONTEXT_BYTES = 8 * 1024  # before an end, in which a secret may begin that continues in it
LONG_WORD = 1024
_SPACE = re.compile(rb"\s+")

Make = Callable[[str, int], Event]  # of a text and the number of bytes omitted before it


class Budget:
    """The number of bytes that may be written; it grows at a steady rate."""

    def __init__(self) -> None:
        self._bytes = float(BURST_BYTES)
        self._counted_at = time.monotonic()

    def current(self) -> float:
        now = time.monotonic()
        self._bytes = min(BURST_BYTES, self._bytes + (now - self._counted_at) * STEADY_BYTES_S)
        self._counted_at = now
        return self._bytes

    def spend(self, count: int) -> None:
        self._bytes -= count


@dataclass(slots=True)
class Source:
    """One stream of text."""

    make: Make
    clean: StreamRedactor
    budget: Budget
    decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")(errors="replace")
    )
    skipped: int = 0  # bytes that were omitted before the text
    text: list[str] = field(default_factory=list)
    over: bytes = b""  # the last bytes after the text that exceeded the rate
    lost: int = 0  # bytes between the two
    held: bool = False  # something may be held back, here or by `clean`
    ended: bool = False

    def take(self, data: bytes) -> None:
        self.text.append(self.decoder.decode(data))
        self.held = True

    def omit(self, data: bytes) -> None:
        """Retain only the last of the bytes that exceed the rate."""
        retained = END_BYTES + CONTEXT_BYTES
        over = (self.over + data[-retained:])[-retained:]
        self.lost += len(self.over) + len(data) - len(over)
        self.over, self.held = over, True

    def cut(self) -> str:
        """The text so far when it does not continue, without any part of a secret at its end."""
        shown, hidden = self.clean.cut()
        self.lost += len(hidden.encode()) + len(self.decoder.getstate()[0])
        self.decoder.reset()
        return shown

    def take_over(self) -> int:
        """Add the retained bytes to the text, or only their end if some were lost; returns how many."""
        over, self.over = self.over, b""
        start = _beginning(over) if self.lost else 0
        if self.lost:
            self.clean.continue_after(over[:start].decode(errors="replace"))
        self.skipped, self.lost = self.skipped + self.lost + start, 0
        self.take(over[start:])
        return len(over) - start

    def forget_over(self) -> None:
        """Omit all retained bytes."""
        self.clean.continue_after(self.over.decode(errors="replace"))
        self.skipped += self.lost + len(self.over)
        self.over, self.lost = b"", 0

    def take_text(self) -> str:
        """Take the text, as far as it can be shown."""
        text = "".join(self.text)
        self.text.clear()
        return self.clean.add(text) if text else ""

    def is_done(self, quiet: bool) -> bool:
        """True if the stream has no state that is still needed."""
        return self.ended or (quiet and self.clean.is_empty and not self.decoder.getstate()[0])


def take_over(source: Source) -> list[Event]:
    """Take the retained bytes if the budget allows; first the text, when bytes between them were lost."""
    owing = min(len(source.over), END_BYTES) > source.budget.current() + MAX_ENDS_BYTES
    before = split_text(source, source.cut()) if source.lost or owing else []
    if owing:
        source.forget_over()
    else:
        source.budget.spend(source.take_over())
    return before


def _beginning(over: bytes) -> int:
    """The start of the end to show: at a word, or at least at a character."""
    position = len(over) - END_BYTES
    if found := _SPACE.search(over, position, position + LONG_WORD):
        return found.end()
    while position < len(over) and over[position] & 0xC0 == 0x80:
        position += 1
    return position


def split_text(source: Source, text: str, *, anyhow: bool = False) -> list[Event]:
    """Split a text into events; the first says how much was omitted. `anyhow`: even for an empty text."""
    if not text and not (anyhow and source.skipped):
        return []
    chunks = [text[at : at + CHUNK_CHARS] for at in range(0, len(text), CHUNK_CHARS)] or [""]
    skipped, source.skipped = source.skipped, 0
    return [source.make(chunk, skipped if position == 0 else 0) for position, chunk in enumerate(chunks)]
