"""Writes all events of the work in a session to its log.

Flows write only the events that open, resume, deliver or end a session. The jail reports its commands and
connections here. Reports wait for the next event of the session and are written without secrets just before
it; when no event follows, they are written after a moment. The agent's loop, requests of users, calls over
MCP and terminals all append through the same recorder.

Output of commands comes before every event that follows it: each append first takes that output. Then come
the jail's reports, and changes of files. The end of a run names the commands that it leaves running: their
later output has their ids.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import structlog

from hutch.agent.commands_left_after_run import CommandsLeftRunning
from hutch.agent.text_for_model import without_surrogates
from hutch.domain.errors import HutchError
from hutch.domain.events import Event, RunEnded, SnapshotTaken
from hutch.domain.ids import SessionId
from hutch.domain.lone_surrogate_replacement import replace_surrogates
from hutch.domain.redaction import Redactor
from hutch.snapshots.git_storage import Snapshot
from hutch.store.event_log_interface import AlsoWrite, EventLog
from hutch.system.uncancellable_work import run_to_end

WRITE_DELAY_S = 0.02
logger = structlog.get_logger()

Listener = Callable[[Sequence[Event]], Awaitable[None]]  # called with events that are in the log
TakeEvents = Callable[[], Sequence[Event]]  # events that are due and not yet appended
Note = Callable[[Event], None]


class TakeOutput(Protocol):
    """Takes printed output. Unless `quiet`, text that may be part of a secret is held back a moment."""

    def __call__(self, *, quiet: bool = False) -> Sequence[Event]: ...


class Recorder:
    """Appends the events of one session."""

    def __init__(self, log: EventLog, session_id: SessionId, redactor: Redactor) -> None:
        self.log = log
        self.session_id = session_id
        self.redactor = redactor
        self.last_seq = 0  # of what was appended here
        self.listeners: list[Listener] = []
        self.take_output: TakeOutput | None = None  # while commands can print
        self.take_changes: TakeEvents | None = None  # while files can change
        self.on_report: Note | None = None  # called at once for each report, before it is written
        self._left_running = CommandsLeftRunning()
        self._pending: list[Event] = []  # reported by the jail, not yet written
        self._writing: asyncio.Task[None] | None = None
        self._appending: set[asyncio.Task[int]] = set()

    async def append(
        self,
        events: Sequence[Event] = (),
        *,
        output: Sequence[Event] = (),
        also: AlsoWrite | None = None,
    ) -> int:
        """Write events after everything that commands have printed, the jail has reported and snapshots have
        shown; return the number of the last one.

        `also` writes rows in the same transaction. `output` was taken before; it comes first. Output precedes
        the jail's reports about its command. All events are durable when this returns. A caller that is
        cancelled meanwhile still waits for that: else it would not know whether the events are in the log.
        """
        ends_run = any(isinstance(event, RunEnded) for event in events)
        printed = self.take_output(quiet=ends_run) if self.take_output is not None else ()
        changes = self.take_changes() if self.take_changes is not None else ()
        reports = self._take_pending()
        written = [*output, *printed, *reports, *changes, *map(self._left_running.complete, events)]
        if not written:
            return 0
        appending = asyncio.ensure_future(self._append(written, also))
        self._appending.add(appending)
        appending.add_done_callback(self._appending.discard)
        return await run_to_end(appending)

    def report(self, event: Event) -> None:
        """Add a report of the jail; it is written with the next event, or else soon."""
        self.note(event)
        self._left_running.note(event)
        self._pending.append(event)
        self.write_soon()

    def note(self, event: Event) -> None:
        """Pass a report on that is written elsewhere."""
        if self.on_report is not None:
            self.on_report(event)

    def write_soon(self) -> None:
        """Write pending reports after a moment, unless an event comes first."""
        if self._writing is None or self._writing.done():
            self._writing = asyncio.ensure_future(self._write_soon())

    def drop_pending(self) -> None:
        """Drop the jail's unwritten reports: the log has ended."""
        self._pending.clear()

    async def settle(self) -> None:
        """Wait for the write that a report has scheduled."""
        if self._writing is not None:
            await asyncio.wait([self._writing])

    async def confirm(self) -> None:
        """Wait until everything that was appended is on disk; raise when something could not be written.

        That includes reports that another caller's append has taken and not yet handed to the log.
        """
        if self._appending:
            await asyncio.wait(self._appending)
        await self.log.flush(self.session_id)

    async def admit(self) -> None:
        """Raise when the log cannot record an action that is about to begin."""
        await self.log.check_can_record(self.session_id)

    @property
    def admits(self) -> bool:
        """True if `admit` would pass, as far as is known without waiting."""
        return self.log.can_record(self.session_id)

    def snapshot_taken(self, taken: Snapshot, reason: str | None = None, *, by: str = "") -> SnapshotTaken:
        """The event for a snapshot; `reason` replaces that of `taken`, which may be an older one's."""
        return SnapshotTaken(
            snapshot=taken.id, tree=taken.tree, reason=taken.reason if reason is None else reason, by=by
        )

    def clean_path(self, path: str) -> str:
        """A path for an event: without secrets, and in valid UTF-8."""
        return self.redactor.redact(replace_surrogates(path))

    def _take_pending(self) -> list[Event]:
        pending, self._pending = self._pending, []
        return [redact_event(event, self.redactor) for event in pending]

    async def _append(self, events: Sequence[Event], also: AlsoWrite | None) -> int:
        head = await self.log.append(self.session_id, events, also=also)
        self.last_seq = max(self.last_seq, head.seq)
        for listener in self.listeners:
            await listener(events)
        return head.seq

    async def _write_soon(self) -> None:
        await asyncio.sleep(WRITE_DELAY_S)
        try:
            await self.append()
        except (
            HutchError
        ) as error:  # the log buffers it until it can be written, unless the session has ended
            logger.warning("session.report_not_written", error=str(error))


def redact_event(event: Event, redactor: Redactor) -> Event:
    """An event whose texts hold neither secrets nor lone surrogates."""
    texts = {
        name: redactor.redact(without_surrogates(value))
        for name, value in event.__dict__.items()
        if isinstance(value, str) and name != "type"
    }
    return event.model_copy(update=texts)
