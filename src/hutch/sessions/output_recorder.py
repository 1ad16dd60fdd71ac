"""What commands and terminals print, on its way into the log.

Pieces are gathered for a moment and written together, without secrets. Who prints
without end does not fill the disk: beyond a steady rate what is printed is counted
and left out, but for a longer piece now and then and for the end, which is where
results and prompts are. Nobody who prints waits for the log.
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

GATHER_S = 0.01
QUIET_S = 0.25  # after so long, what was held back is shown, unless it really looks like a secret's beginning
MAX_QUIET = 256  # streams whose last words are remembered: a secret may go on after a pause
PIECE_CHARS = 8 * 1024  # so that an event is small enough to lie in the database itself
BURST_BYTES = 256 * 1024
STEADY_BYTES_S = 128 * 1024
AGAIN_BYTES = 32 * 1024  # may be written before one who prints too much is written down again: no confetti
END_BYTES = 8 * 1024  # of what is too much, that are written when it was the end
OWED_BYTES = 64 * 1024  # that all such ends may take beyond the rate
CONTEXT_BYTES = 8 * 1024  # before an end, in which a secret may begin that goes on in it
LONG_WORD = 1024
_SPACE = re.compile(rb"\s+")
logger = structlog.get_logger()

Make = Callable[[str, int], Event]  # of a text, and of how many bytes were left out before it


@dataclass(slots=True)
class Source:
    """One stream of text."""

    make: Make
    clean: StreamRedactor
    decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")(errors="replace")
    )
    skipped: int = 0  # bytes that were left out before the text
    text: list[str] = field(default_factory=list)
    over: bytes = b""  # what came after the text beyond the rate, the last of it
    lost: int = 0  # bytes between the two
    held: bool = False  # something may be held back, here or by `clean`
    ended: bool = False

    def take(self, data: bytes) -> None:
        self.text.append(self.decoder.decode(data))
        self.held = True

    def leave_out(self, data: bytes) -> None:
        """Of too much, keep the last."""
        kept = END_BYTES + CONTEXT_BYTES
        over = (self.over + data[-kept:])[-kept:]
        self.lost += len(self.over) + len(data) - len(over)
        self.over, self.held = over, True

    def cut(self) -> str:
        """What can be shown of the text, when it does not go on; nothing of a secret that it ends in."""
        shown, hidden = self.clean.cut()
        self.lost += len(hidden.encode()) + len(self.decoder.getstate()[0])
        self.decoder.reset()
        return shown

    def take_over(self) -> int:
        """Take what was too much after all, or its end if there was more; how many bytes."""
        over, self.over = self.over, b""
        start = _beginning(over) if self.lost else 0
        if self.lost:
            self.clean.continue_after(over[:start].decode(errors="replace"))
        self.skipped, self.lost = self.skipped + self.lost + start, 0
        self.take(over[start:])
        return len(over) - start

    def forget_over(self) -> None:
        """Leave it out, to the last byte."""
        self.clean.continue_after(self.over.decode(errors="replace"))
        self.skipped += self.lost + len(self.over)
        self.over, self.lost = b"", 0

    def take_text(self) -> str:
        """The text, as far as it can be shown."""
        text = "".join(self.text)
        self.text.clear()
        return self.clean.add(text) if text else ""

    def is_done(self, quiet: bool) -> bool:
        """Whether nothing of it need be remembered."""
        return self.ended or (quiet and self.clean.is_empty and not self.decoder.getstate()[0])


class OutputRecorder:
    """All that is printed in one session."""

    def __init__(self, append: Callable[[Sequence[Event]], Awaitable[object]], redactor: Redactor) -> None:
        self._append = append
        self._redactor = redactor
        self._sources: dict[object, Source] = {}
        self._room = float(BURST_BYTES)
        self._counted_at = time.monotonic()
        self._writing: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._turn = asyncio.Lock()
        self._closed = False

    def add(self, key: object, data: bytes, make: Make) -> None:
        """The next bytes of a stream."""
        source = self._sources.pop(key, None) or Source(make, StreamRedactor(self._redactor))
        self._sources[key] = source  # the last to print is the last to be forgotten
        source.make, source.ended = make, False
        if source.over or len(data) > self._room_now():
            source.leave_out(data)
        else:
            self._room -= len(data)
            source.take(data)
        self._soon()

    def continue_after(self, key: object, end: bytes, lost_bytes: int, make: Make) -> None:
        """A stream begins behind bytes that were lost; `end` is the last of them, and is not shown."""
        source = self._sources[key] = Source(make, StreamRedactor(self._redactor))
        source.clean.continue_after(end.decode(errors="replace"))
        source.skipped = lost_bytes

    def end(self, key: object) -> None:
        """Nothing more will come of a stream; what was held back of it is shown."""
        source = self._sources.get(key)
        if source is not None:
            source.ended = True
            self._soon()

    async def flush(self, *, quiet: bool = True) -> None:
        """Write all there is; unless `quiet`, only what can be shown of streams that go on."""
        await self._write(quiet=quiet)

    async def close(self) -> None:
        self._closed = True
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait([self._writing])
        for key in self._sources:
            self.end(key)
        await self.flush()

    def _room_now(self) -> float:
        now = time.monotonic()
        self._room = min(BURST_BYTES, self._room + (now - self._counted_at) * STEADY_BYTES_S)
        self._counted_at = now
        return self._room

    def _soon(self) -> None:
        self._wanted.set()
        if self._writing is None and not self._closed:
            self._writing = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while True:
            try:
                held = any(source.held for source in self._sources.values())
                async with asyncio.timeout(QUIET_S if held else None):
                    await self._wanted.wait()
                quiet = False
            except TimeoutError:
                quiet = True
            await asyncio.sleep(GATHER_S - time.monotonic() % GATHER_S)  # all at the same moment: one commit
            self._wanted.clear()
            try:
                await self._write(quiet=quiet)
            except HutchError as error:  # a full disk, say: the log will tell how much is missing
                logger.warning("session.output_lost", error=str(error))

    async def _write(self, *, quiet: bool) -> None:
        async with self._turn:  # whoever flushes waits for what is being written, too
            sources = self._sources
            events = [event for source in sources.values() for event in self._events(source, quiet=quiet)]
            self._sources = {key: source for key, source in sources.items() if not source.is_done(quiet)}
            for source in list(self._sources.values())[:-MAX_QUIET]:
                source.ended = True  # the next time, what is left of it is shown
            if events:
                await self._append(events)

    def _events(self, source: Source, *, quiet: bool) -> list[Event]:
        pausing = quiet or source.ended
        events = _pieces(source, source.take_text())
        if source.over and (pausing or self._room_now() >= AGAIN_BYTES):
            events += self._take_over(source)
        if source.ended:
            source.text.append(source.decoder.decode(b"", final=True))
        shown = source.take_text()
        if pausing:
            shown += source.clean.end() if source.ended else source.clean.pause()
            source.held = False
        return events + _pieces(source, shown, anyhow=pausing)

    def _take_over(self, source: Source) -> list[Event]:
        """What was too much, if there is room; before it the text, when something was lost between them."""
        owing = min(len(source.over), END_BYTES) > self._room_now() + OWED_BYTES
        before = _pieces(source, source.cut()) if source.lost or owing else []
        if owing:
            source.forget_over()
        else:
            self._room -= source.take_over()
        return before


def _beginning(over: bytes) -> int:
    """Where the end of too much begins, at a word or at least at a letter."""
    place = len(over) - END_BYTES
    if found := _SPACE.search(over, place, place + LONG_WORD):
        return found.end()
    while place < len(over) and over[place] & 0xC0 == 0x80:
        place += 1
    return place


def _pieces(source: Source, text: str, *, anyhow: bool = False) -> list[Event]:
    """Events of a text, the first of which tells what was left out before it; `anyhow`: even an empty one."""
    if not text and not (anyhow and source.skipped):
        return []
    pieces = [text[at : at + PIECE_CHARS] for at in range(0, len(text), PIECE_CHARS)] or [""]
    skipped, source.skipped = source.skipped, 0
    return [source.make(piece, skipped if place == 0 else 0) for place, piece in enumerate(pieces)]
