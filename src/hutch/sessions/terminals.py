"""The terminals of a session: they have many viewers, are recorded in the log, and end with their jail.

The log gets the output, the text that users type, and each command with the user who typed it: the shell
marks its commands in the output (`jail/shell_marks.py`).
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress

import structlog

from hutch.agent.session_recorder import Recorder, redact_event
from hutch.domain.errors import BadRequest, Conflict, HutchError, LimitReached, NotFound
from hutch.domain.events import (
    CommandEnded,
    CommandStarted,
    Event,
    JobsDetached,
    JobsEnded,
    TerminalEnded,
    TerminalOpened,
    TerminalPrinted,
    TerminalResized,
)
from hutch.domain.quoted_text import echo
from hutch.jail.interface import Size
from hutch.jail.leftover_jobs import JobWatch
from hutch.jail.running_jail import Jailed
from hutch.jail.shell_marks import marked_program
from hutch.jail.terminal import Terminal, TerminalReader, start_terminal
from hutch.sessions.activity import Activity
from hutch.sessions.output_recorder import OutputRecorder
from hutch.sessions.requests import TerminalProgram, TerminalState
from hutch.sessions.terminal_commands import TerminalCommands
from hutch.sessions.terminal_input import TerminalInput
from hutch.sessions.terminal_marks import Mark, MarkParser
from hutch.sessions.terminal_masking import MaskedReader, first_masked

PROGRAMS: dict[TerminalProgram, str] = {"bash": "/bin/bash", "sh": "/bin/sh", "zsh": "zsh"}
MAX_TERMINALS = 16
MAX_SIDE = 1000  # rows or columns
UNWATCHED_DELAY_S = 0.02  # between two reads of a terminal without viewers
MIN_JOBS_INTERVAL_S = 0.05  # between two checks of a terminal's processes: output may come very often
# The end of a shell's output when it waits for a command; colours and marks may follow it.
PROMPT = re.compile(r"[$#%>❯] ?(?:\x1b\[[0-9;?]*[A-Za-z]|\x1b\]133;[A-Za-z0-9;]*(?:\x07|\x1b\\))*$")
logger = structlog.get_logger()


class Held:
    """A terminal and its state."""

    def __init__(
        self,
        id: str,
        terminal: Terminal,
        size: Size,
        input: TerminalInput,
        commands: TerminalCommands,
        by: str,
    ) -> None:
        self.id = id
        self.by = by
        self.terminal = terminal
        self.size = size
        self.input = input
        self.commands = commands
        self.viewers = 0
        self.exit_code: int | None = None
        self.is_marked = False  # the shell marks its prompts
        self.recording: asyncio.Task[None] | None = None
        self.jobs: JobWatch | None = None

    def end_watch(self) -> None:
        """Note that its program and all processes of that have ended."""
        if self.jobs is not None:
            self.jobs.end()

    def check_jobs(self) -> None:
        if self.jobs is not None:
            self.jobs.check()

    def state(self) -> TerminalState:
        return TerminalState(
            self.id,
            self.size.columns,
            self.size.rows,
            self.viewers,
            self.terminal.seq,
            self.terminal.ended,
            self.exit_code,
        )


class TerminalViewer:
    """One viewer of a terminal; see `Viewer` in the interface."""

    def __init__(
        self,
        held: Held,
        reader: TerminalReader,
        shown: MaskedReader,
        resized: Callable[[Held, Size], None],
        recorder: Recorder,
        by: str,
        typed: Callable[[Held, str], None],
    ) -> None:
        self._by = by
        self._held = held
        self._reader = reader
        self._shown = shown
        self._resized = resized
        self._recorder = recorder
        self._typed = typed
        self.missed_bytes = reader.missed_bytes

    @property
    def seq(self) -> int:
        return self._reader.seq

    @property
    def terminal(self) -> Terminal:
        """The terminal itself, for a viewer in the same process."""
        return self._held.terminal

    def detach(self) -> None:
        """End the iteration."""
        self._reader.detach()

    def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        return self._shown

    def mask(self, masked: bool) -> None:
        self._shown.masked = masked

    def acknowledge(self, count: int) -> None:
        self._reader.acknowledge(count)

    async def write(self, data: bytes) -> None:
        if not self._recorder.admits:  # its output could not be recorded
            await self._recorder.admit()
        self._typed(self._held, self._by)
        input = self._held.input
        # Before it is written: the program may answer at once.
        input.record(data, self._by, hidden=input.is_hidden)
        await self._held.terminal.write(data)

    def write_some(self, data: bytes) -> int:
        if not self._recorder.admits:
            return 0
        self._typed(self._held, self._by)
        input = self._held.input
        hidden = input.is_hidden
        count = self._held.terminal.write_some(data)
        if count:
            input.record(data[:count], self._by, hidden=hidden)
        return count

    def resize(self, columns: int, rows: int) -> None:
        self._resized(self._held, _size(columns, rows))

    @property
    def blocking_s(self) -> float:
        return self._reader.blocking_s

    @property
    def exit_code(self) -> int | None:
        return self._held.exit_code


class Terminals:
    """All terminals of one jail."""

    def __init__(
        self,
        jail: Jailed,
        recorder: Recorder,
        output_recorder: OutputRecorder,
        count_opened: Callable[[], Awaitable[int]],
        activity: Activity,
        on_prompt: Callable[[str], None],
    ) -> None:
        self._jail = jail
        self._count_opened = count_opened  # in the whole session: no two terminals have the same id
        self._activity = activity
        self._on_prompt = on_prompt  # called with the id of a terminal that waits for its next command
        self._recorder = recorder
        self._output_recorder = output_recorder
        self._held: dict[str, Held] = {}
        self._count: int | None = None
        self._counting = asyncio.Lock()
        self._recordings: set[asyncio.Future[object]] = set()

    @property
    def watched(self) -> bool:
        return any(held.viewers for held in self._held.values())

    def list(self) -> "list[TerminalState]":
        return [held.state() for held in self._held.values()]

    async def open(
        self,
        columns: int,
        rows: int,
        *,
        by: str,
        env: Mapping[str, str] | None = None,
        program: TerminalProgram = "bash",
    ) -> TerminalState:
        size = _size(columns, rows)
        shell = marked_program(PROGRAMS[program], unsafe=self._jail.unsafe, environment=env)
        if len(self._held) >= MAX_TERMINALS:
            raise LimitReached(
                f"The session has {MAX_TERMINALS} terminals already. Close one.", limit="terminals"
            )
        id = await self._new_id()
        await self._recorder.append([TerminalOpened(terminal=id, columns=columns, rows=rows, by=by)])
        try:
            terminal = await start_terminal(
                self._jail,
                shell.argv,
                size=size,
                env={"TERM": "xterm-256color", **(env or {}), **shell.env},
                descriptor_3=f"{shell.key}\n".encode(),
            )
        except BaseException:
            self._record_soon(TerminalEnded(terminal=id))
            raise
        commands = TerminalCommands(id, self._command_started, self._command_ended)
        input = TerminalInput(id, terminal, commands, self._output_recorder)
        held = self._held[id] = Held(id, terminal, size, input, commands, by)
        held.jobs = JobWatch(
            lambda: terminal.has_jobs,
            lambda found: self._record_soon(JobsDetached(terminal=id) if found else JobsEnded(terminal=id)),
            min_interval_s=MIN_JOBS_INTERVAL_S,
        )
        held.recording = asyncio.ensure_future(self._record(held, MarkParser(shell.key)))
        return held.state()

    async def _new_id(self) -> str:
        async with self._counting:
            self._count = (await self._count_opened() if self._count is None else self._count) + 1
            return str(self._count)

    @asynccontextmanager
    async def watch(
        self, id: str, resume: int | None, *, masked: bool = True, by: str = ""
    ) -> AsyncIterator[TerminalViewer]:
        held = self._get(id)
        reader = held.terminal.attach(first_masked(held.terminal, resume) if masked else resume)
        shown = MaskedReader(held.terminal, reader, self._recorder.redactor)
        shown.masked = masked
        reader.missed_bytes = 0 if resume is None else reader.seq - resume
        held.viewers += 1
        try:
            yield TerminalViewer(held, reader, shown, self._resize, self._recorder, by, self._note_typing)
        finally:
            held.viewers -= 1
            reader.detach()

    async def close(self, id: str) -> None:
        await self._end(self._get(id))

    async def close_all(self) -> None:
        for held in list(self._held.values()):
            await self._end(held)
        if self._recordings:
            await asyncio.wait(self._recordings)

    def _get(self, id: str) -> Held:
        held = self._held.get(id)
        if held is None:
            raise NotFound(f"There is no terminal {echo(id, 40)} in this session.")
        return held

    def _resize(self, held: Held, size: Size) -> None:
        if held.terminal.ended:
            raise Conflict(f"The program of terminal {held.id} has ended.")
        held.terminal.resize(size)
        held.size = size
        self._record_soon(TerminalResized(terminal=held.id, columns=size.columns, rows=size.rows))

    def _note_typing(self, held: Held, by: str) -> None:
        """Note work from before the text is written: the mark of a command may come after its changes."""
        self._activity.typed(held.id, by or held.by)

    def _record_soon(self, event: Event) -> None:
        self._recorder.note(event)
        recording: asyncio.Future[object] = asyncio.ensure_future(self._record_event(event))
        self._recordings.add(recording)
        recording.add_done_callback(self._recordings.discard)

    async def _record_event(self, event: Event) -> object:
        try:
            return await self._recorder.append([event])
        except (
            HutchError
        ) as error:  # the session has ended, or the log holds the event until it can be written
            logger.warning("terminal.not_recorded", error=str(error))
            return None

    def _command_started(self, event: CommandStarted) -> None:
        self._place(event)

    def _command_ended(self, event: CommandEnded) -> None:
        self._place(event)

    def _prompted(self, held: Held) -> None:
        """Note that the shell waits for a command; the last one may have left jobs."""
        held.check_jobs()
        self._activity.prompted(held.id)
        self._on_prompt(held.id)

    def _place(self, event: CommandStarted | CommandEnded) -> None:
        """Record an event of a command after everything that was typed and printed before it."""
        self._recorder.note(event)
        self._held[event.terminal].input.settle()
        self._output_recorder.add_event(_key(event.terminal), redact_event(event, self._recorder.redactor))

    async def _record(self, held: Held, parser: MarkParser) -> None:
        """Watch a terminal for the log, until its program ends."""
        reader = held.terminal.attach(0)
        key = _key(held.id)

        def make(text: str, skipped: int) -> Event:
            if not held.is_marked and PROMPT.search(text):
                self._prompted(held)
            return TerminalPrinted(terminal=held.id, text=text, skipped_bytes=skipped)

        try:
            async for seq, data in reader:
                for part in parser.feed(data):
                    if isinstance(part, Mark):
                        held.commands.mark(part)
                        if part.kind == "prompt":
                            held.is_marked = True
                            self._prompted(held)
                    else:
                        self._output_recorder.add(key, part, make)
                held.commands.advance(seq + len(data))
                if not held.viewers:
                    # Unwatched output must not keep the host busy.
                    await asyncio.sleep(UNWATCHED_DELAY_S)
                reader.acknowledge(len(data))
        finally:
            reader.detach()
            if rest := parser.end():
                self._output_recorder.add(key, rest, make)
            self._output_recorder.end(key)
            held.input.end()
        with suppress(HutchError):
            held.exit_code = (await held.terminal.wait()).code
        held.commands.close(held.exit_code)
        self._prompted(held)
        await self._record_event(TerminalEnded(terminal=held.id, exit_code=held.exit_code))
        if self._held.get(held.id) is held and not held.viewers:
            del self._held[held.id]
            await held.terminal.close()
            held.end_watch()

    async def _end(self, held: Held) -> None:
        await held.terminal.close()
        if held.recording is not None:
            await asyncio.wait([held.recording])
        held.end_watch()
        self._held.pop(held.id, None)


def _key(terminal: str) -> object:
    return ("terminal", terminal)


def _size(columns: int, rows: int) -> Size:
    if not (0 < columns <= MAX_SIDE and 0 < rows <= MAX_SIDE):
        raise BadRequest(f"{columns}x{rows} is not a terminal size. Give 1 to {MAX_SIDE} columns and rows.")
    return Size(rows=rows, columns=columns)
