"""Records the output of commands and terminals in the log.

Output is batched for a moment and written without secrets. Endless output does not fill
the disk: beyond a steady rate it is only counted and omitted, except for a longer chunk now
and then and for its end, which has the results and prompts. Programs never wait for the log.
"""

import asyncio
import codecs
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import structlog

from hutch.domain.errors import HutchError
from hutch.domain.events import Event
from hutch.domain.redaction import Redactor
from hutch.domain.stream_redactor import StreamRedactor

BATCH_INTERVAL_S = 0.01
QUIET_DELAY_S = 0.25  # then held output is written, unless it looks like the beginning of a secret
MAX_QUIET = 256  # streams whose last words are remembered: a secret may continue after a pause
CHUNK_CHARS = 8 * 1024  # an event of this size fits into the database itself
BURST_BYTES = 256 * 1024
STEADY_BYTES_S = 128 * 1024
RESUME_BYTES = 32 * 1024  # of budget before an omitted stream is recorded again: this avoids many tiny chunks
END_BYTES = 8 * 1024  # at the end of omitted output, which are written
MAX_ENDS_BYTES = 64 * 1024  # that all such ends may take beyond the rate
CONTEXT_BYTES = 8 * 1024  # before an end, in which a secret may begin that continues in it
LONG_WORD = 1024
_SPACE = re.compile(rb"\s+")
logger = structlog.get_logger()

Make = Callable[[str, int], Event]  # of a text and the number of bytes omitted before it


@dataclass(slots=True)
class Source:
    """One stream of text."""

    make: Make
    clean: StreamRedactor
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
        """Whether the stream has no state that is still needed."""
        return self.ended or (quiet and self.clean.is_empty and not self.decoder.getstate()[0])


class OutputRecorder:
    """Records all output of one session."""

    def __init__(self, append: Callable[[Sequence[Event]], Awaitable[object]], redactor: Redactor) -> None:
        self._append = append
        self._redactor = redactor
        self._sources: dict[object, Source] = {}
        self._taken: list[Event] = []  # of streams, before they changed
        self._budget = float(BURST_BYTES)
        self._counted_at = time.monotonic()
        self._writing: asyncio.Task[None] | None = None
        self._has_output = asyncio.Event()
        self._turn = asyncio.Lock()
        self._closed = False

    def add(self, key: object, data: bytes, make: Make) -> None:
        """Add the next bytes of a stream."""
        source = self._sources.pop(key, None) or Source(make, StreamRedactor(self._redactor))
        self._sources[key] = source  # streams are forgotten in the order of their last output
        source.make, source.ended = make, False
        if source.over or len(data) > self._current_budget():
            source.omit(data)
        else:
            self._budget -= len(data)
            source.take(data)
        self._soon()

    def continue_after(self, key: object, end: bytes, lost_bytes: int, make: Make) -> None:
        """Start a stream after lost bytes. `end` is the last of these, and is not shown."""
        source = self._sources[key] = Source(make, StreamRedactor(self._redactor))
        source.clean.continue_after(end.decode(errors="replace"))
        source.skipped = lost_bytes

    def change(self, key: object, make: Make) -> None:
        """Make other events of a stream's later output. What it holds is written as before, except for what
        looks like the beginning of a secret."""
        source = self._sources.get(key)
        if source is not None:
            self._taken += self._events(source, quiet=True)
            source.make = make
            self._soon()

    def end(self, key: object) -> None:
        """End a stream; its held output is written."""
        source = self._sources.get(key)
        if source is not None:
            source.ended = True
            self._soon()

    def take_events(self, *, quiet: bool = False) -> list[Event]:
        """Take the output so far as events, for the caller to write. Unless `quiet`, the held output of open
        streams remains held."""
        sources, events, self._taken = self._sources, self._taken, []
        events += [event for source in sources.values() for event in self._events(source, quiet=quiet)]
        self._sources = {key: source for key, source in sources.items() if not source.is_done(quiet)}
        for source in list(self._sources.values())[:-MAX_QUIET]:
            source.ended = True  # its remaining output is written next time
        return events

    async def flush(self) -> None:
        """Write all output, also what open streams hold."""
        await self._write(quiet=True)

    async def close(self) -> None:
        self._closed = True
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait([self._writing])
        for key in self._sources:
            self.end(key)
        await self.flush()

    def _current_budget(self) -> float:
        now = time.monotonic()
        self._budget = min(BURST_BYTES, self._budget + (now - self._counted_at) * STEADY_BYTES_S)
        self._counted_at = now
        return self._budget

    def _soon(self) -> None:
        self._has_output.set()
        if self._writing is None and not self._closed:
            self._writing = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while True:
            try:
                held = any(source.held for source in self._sources.values())
                async with asyncio.timeout(QUIET_DELAY_S if held else None):
                    await self._has_output.wait()
                quiet = False
            except TimeoutError:
                quiet = True
            # All at the same moment: one commit.
            await asyncio.sleep(BATCH_INTERVAL_S - time.monotonic() % BATCH_INTERVAL_S)
            self._has_output.clear()
            try:
                await self._write(quiet=quiet)
            except HutchError as error:  # for example a full disk: the log will say how much is missing
                logger.warning("session.output_lost", error=str(error))

    async def _write(self, *, quiet: bool) -> None:
        async with self._turn:  # a flush also waits for the write in progress
            if events := self.take_events(quiet=quiet):
                await self._append(events)

    def _events(self, source: Source, *, quiet: bool) -> list[Event]:
        pausing = quiet or source.ended
        events = _chunks(source, source.take_text())
        if source.over and (pausing or self._current_budget() >= RESUME_BYTES):
            events += self._take_over(source)
        if source.ended:
            source.text.append(source.decoder.decode(b"", final=True))
        shown = source.take_text()
        if pausing:
            shown += source.clean.end() if source.ended else source.clean.pause()
            source.held = False
        return events + _chunks(source, shown, anyhow=pausing)

    def _take_over(self, source: Source) -> list[Event]:
        """Take the retained bytes if the budget allows; first the text, when bytes between them were lost."""
        owing = min(len(source.over), END_BYTES) > self._current_budget() + MAX_ENDS_BYTES
        before = _chunks(source, source.cut()) if source.lost or owing else []
        if owing:
            source.forget_over()
        else:
            self._budget -= source.take_over()
        return before


def _beginning(over: bytes) -> int:
    """The start of the end to show: at a word, or at least at a character."""
    position = len(over) - END_BYTES
    if found := _SPACE.search(over, position, position + LONG_WORD):
        return found.end()
    while position < len(over) and over[position] & 0xC0 == 0x80:
        position += 1
    return position


def _chunks(source: Source, text: str, *, anyhow: bool = False) -> list[Event]:
    """Split a text into events; the first says how much was omitted. `anyhow`: even for an empty text."""
    if not text and not (anyhow and source.skipped):
        return []
    chunks = [text[at : at + CHUNK_CHARS] for at in range(0, len(text), CHUNK_CHARS)] or [""]
    skipped, source.skipped = source.skipped, 0
    return [source.make(chunk, skipped if position == 0 else 0) for position, chunk in enumerate(chunks)]
