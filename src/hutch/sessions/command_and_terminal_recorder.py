"""Records the output of commands and terminals, and the text typed in terminals, in the log.

Output is batched for a moment and written without secrets. Endless output does not fill
the disk: beyond a steady rate it is only counted and omitted, except for a longer chunk now
and then and for its end, which has the results and prompts. Programs never wait for the log.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

import structlog

from hutch.domain.errors import HutchError
from hutch.domain.events import Event
from hutch.domain.redaction import Redactor
from hutch.domain.stream_redactor import StreamRedactor
from hutch.sessions.output_log_filter import Budget, Make, Source, split_text, take_over

BATCH_INTERVAL_S = 0.01
QUIET_DELAY_S = 0.25  # then held output is written, unless it looks like the beginning of a secret
MAX_QUIET = 256  # streams whose last words are remembered: a secret may continue after a pause
RESUME_BYTES = 32 * 1024  # of budget before an omitted stream is recorded again: this avoids many tiny chunks
logger = structlog.get_logger()


class OutputRecorder:
    """Records all output of one session."""

    def __init__(self, append: Callable[[Sequence[Event]], Awaitable[object]], redactor: Redactor) -> None:
        self._append = append
        self._redactor = redactor
        self._sources: dict[object, Source] = {}
        self._taken: list[Event] = []  # of streams, before they changed
        self._budget = Budget()
        self._typed_budget = Budget()  # of its own: a flood of output must not hide what users type
        self._writing: asyncio.Task[None] | None = None
        self._has_output = asyncio.Event()
        self._turn = asyncio.Lock()
        self._closed = False

    def add(
        self, key: object, data: bytes, make: Make, *, typed: bool = False, is_edited: bool = False
    ) -> None:
        """Add the next bytes of a stream, of output unless a user has `typed` them. `is_edited`: a user types
        them, or a terminal shows what users type."""
        source = self._sources.pop(key, None) or self._source(make, typed=typed, is_edited=is_edited)
        self._sources[key] = source  # streams are forgotten in the order of their last output
        source.make, source.ended = make, False
        if source.over or len(data) > source.budget.current():
            source.omit(data)
        else:
            source.budget.spend(len(data))
            source.take(data)
        self._soon()

    def add_event(self, key: object, event: Event) -> None:
        """Add an event at its place in a stream: after the output so far, and before all later output."""
        self.settle(key)
        self._taken.append(event)
        self._soon()

    def settle(self, key: object) -> None:
        """Place the text of a stream before all that is added later."""
        if (source := self._sources.get(key)) is not None:
            self._taken += self._events(source, quiet=True)

    def change(self, key: object, make: Make) -> None:
        """Make other events of a stream's later output. Its buffer is written as before, except for text
        that may be the beginning of a secret."""
        self.settle(key)
        if (source := self._sources.get(key)) is not None:
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

    def _source(self, make: Make, *, typed: bool, is_edited: bool) -> Source:
        clean = StreamRedactor(self._redactor, is_edited=is_edited)
        return Source(make, clean, self._typed_budget if typed else self._budget)

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
        events = split_text(source, source.take_text())
        if source.over and (pausing or source.budget.current() >= RESUME_BYTES):
            events += take_over(source)
        if source.ended:
            source.text.append(source.decoder.decode(b"", final=True))
        shown = source.take_text()
        if pausing:
            shown += source.clean.end() if source.ended else source.clean.pause()
            source.held = False
        return events + split_text(source, shown, anyhow=pausing)
