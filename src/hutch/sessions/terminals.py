"""The terminals of a session: they have many viewers, are recorded in the log, and end with their jail.

The log gets the output, the text that users type, and each command with the user who typed it: the shell
marks its commands in the output (`jail/shell_prompt_marks.py`).
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import structlog

from hutch.agent.session_recorder import Recorder, redact_event
from hutch.domain.current_actor_and_author import AGENT
from hutch.domain.errors import Conflict, HutchError, LimitReached, NotFound
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
from hutch.domain.one_line_text import echo
from hutch.jail.command_process import Command
from hutch.jail.interface import Exit, Size
from hutch.jail.leftover_job_detection import JobWatch
from hutch.jail.limits.limit_hit_attribution import EndedCommand
from hutch.jail.policy import TMPFS_LIMITS
from hutch.jail.running_jail import Jailed
from hutch.jail.shared_terminal import start_terminal
from hutch.jail.shell_prompt_marks import marked_program
from hutch.sessions.author_work_periods import Activity
from hutch.sessions.command_and_terminal_recorder import OutputRecorder
from hutch.sessions.commands_typed_in_terminal import TerminalCommands
from hutch.sessions.file_and_command_requests import TerminalProgram, TerminalState
from hutch.sessions.shell_mark_parser import Mark, MarkParser
from hutch.sessions.terminal_input_recorder import TerminalInput
from hutch.sessions.terminal_masking import KeyMask, MaskedReader, first_masked
from hutch.sessions.terminal_state_and_viewer import Held, TerminalViewer, checked_size

PROGRAMS: dict[TerminalProgram, str] = {"bash": "/bin/bash", "sh": "/bin/sh", "zsh": "zsh"}
MAX_TERMINALS = 16
UNWATCHED_DELAY_S = 0.02  # between two reads of a terminal without viewers
MIN_JOBS_INTERVAL_S = 0.05  # between two checks of a terminal's processes: output may come very often
# The end of a shell's output when it waits for a command; colours and marks may follow it.
PROMPT = re.compile(r"[$#%>❯] ?(?:\x1b\[[0-9;?]*[A-Za-z]|\x1b\]133;[A-Za-z0-9;]*(?:\x07|\x1b\\))*$")
logger = structlog.get_logger()


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
    def used(self) -> bool:
        """True while a client watches one, or a program runs in one."""
        return any(held.viewers or held.is_working for held in self._held.values())

    def commands(self, id: str) -> "list[Command]":
        """The program of a terminal as a command of the jail; empty when it is closed."""
        held = self._held.get(id)
        return held.terminal.commands if held is not None else []

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
        size = checked_size(columns, rows)
        shell = marked_program(PROGRAMS[program], unsafe=self._jail.unsafe, environment=env)
        if len(self._held) >= MAX_TERMINALS:
            raise LimitReached(
                f"The session has {MAX_TERMINALS} terminals already. Close one.", limit="terminals"
            )
        id = await self._new_id()
        await self._recorder.append([TerminalOpened(terminal=id, columns=columns, rows=rows, by=by)])
        mark = self._jail.mark()
        try:
            terminal = await start_terminal(
                self._jail,
                shell.argv,
                size=size,
                env={"TERM": "xterm-256color", **(env or {}), **shell.env},
                descriptor_3=f"{shell.key}\n".encode(),
            )
        except BaseException:
            self._record_soon(TerminalEnded(terminal=id, by=by))
            raise
        commands = TerminalCommands(id, self._command_started, self._command_ended)
        input = TerminalInput(id, terminal, commands, self._output_recorder)
        held = self._held[id] = Held(id, terminal, size, input, commands, by, shell.key, mark)
        held.jobs = JobWatch(
            lambda: terminal.has_jobs,
            lambda found: self._note_jobs(held, found),
            min_interval_s=MIN_JOBS_INTERVAL_S,
        )
        held.recording = asyncio.ensure_future(self._record(held))
        return held.state()

    async def _new_id(self) -> str:
        async with self._counting:
            self._count = (await self._count_opened() if self._count is None else self._count) + 1
            return str(self._count)

    @asynccontextmanager
    async def watch(
        self, id: str, resume: int | None, *, masked: bool = True, by: str = ""
    ) -> AsyncIterator[TerminalViewer]:
        held = self.get(id)
        reader = held.terminal.attach(first_masked(held.terminal, resume) if masked else resume)
        shown = MaskedReader(held.terminal, reader, self._recorder.redactor, KeyMask(held.key))
        shown.masked = masked
        reader.missed_bytes = 0 if resume is None else reader.seq - resume
        held.viewers += 1
        viewer = TerminalViewer(held, reader, shown, self._resize, self._recorder, by, self._note_typing)
        try:
            yield viewer
        finally:
            held.viewers -= 1
            viewer.detach()

    async def close(self, id: str, *, by: str) -> None:
        await self._end(self.get(id), by=by)

    async def close_all(self) -> None:
        for held in list(self._held.values()):
            await self._end(held)
        if self._recordings:
            await asyncio.wait(self._recordings)

    def all(self) -> "Sequence[Held]":
        return tuple(self._held.values())

    async def type_as(self, held: Held, data: bytes, by: str) -> int:
        """Type as much as the program takes now; returns the number of bytes."""
        if not self._recorder.admits:
            await self._recorder.admit()
        self._note_typing(held, by)
        hidden = held.input.is_hidden
        count = held.terminal.write_some(data)
        if count:
            held.input.record(data[:count], by, hidden=hidden)
        return count

    def get(self, id: str) -> Held:
        held = self._held.get(id)
        if held is None:
            raise NotFound(f"There is no terminal {echo(id, 40)} in this session.")
        return held

    def _resize(self, held: Held, size: Size, by: str) -> None:
        if held.terminal.ended:
            raise Conflict(f"The program of terminal {held.id} has ended.")
        held.terminal.resize(size)
        held.size = size
        self._record_soon(TerminalResized(terminal=held.id, columns=size.columns, rows=size.rows, by=by))

    def _note_typing(self, held: Held, by: str) -> None:
        """Note work from before the text is written: the mark of a command may come after its changes."""
        if by != AGENT:
            held.typing.note_person(by)
        self._activity.typed(held.id, by or held.by)

    def _record_soon(self, event: Event) -> None:
        self._recorder.note(event)
        recording: asyncio.Future[object] = asyncio.ensure_future(self._record_event(event))
        self._recordings.add(recording)
        recording.add_done_callback(self._recordings.discard)

    def _note_jobs(self, held: Held, found: bool) -> None:
        held.has_jobs = found
        left = JobsDetached(terminal=held.id, by=held.commands.last_author)
        self._record_soon(left if found else JobsEnded(terminal=held.id))

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
        held.mark = self._jail.mark(inspect_soon=False)
        self._activity.prompted(held.id)
        self._on_prompt(held.id)

    def _place(self, event: CommandStarted | CommandEnded) -> None:
        """Record an event of a command after everything that was typed and printed before it."""
        self._recorder.note(event)
        self._held[event.terminal].input.settle()
        self._output_recorder.add_event(_key(event.terminal), redact_event(event, self._recorder.redactor))

    async def _record(self, held: Held) -> None:
        """Watch a terminal for the log, until its program ends."""
        parser, mask = MarkParser(held.key), KeyMask(held.key)
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
                    elif shown := mask.feed(part):
                        self._output_recorder.add(key, shown, make, is_edited=True)
                held.commands.advance(seq + len(data))
                if not held.viewers:
                    # Unwatched output must not keep the host busy.
                    await asyncio.sleep(UNWATCHED_DELAY_S)
                reader.acknowledge(len(data))
        finally:
            reader.detach()
            if rest := mask.feed(parser.end()) + mask.end():
                self._output_recorder.add(key, rest, make, is_edited=True)
            self._output_recorder.end(key)
            held.input.end()
        with suppress(HutchError):
            ended = await held.terminal.wait()
            held.limit = await self._limit_that_killed(held, ended)
            held.exit_code, held.has_result = ended.code, True
        held.commands.close(held.exit_code)
        self._prompted(held)
        # A program that ends by itself does so because of what was typed, as far as is known.
        by = held.commands.last_typist if held.closed_by is None else held.closed_by
        await self._record_event(
            TerminalEnded(terminal=held.id, exit_code=held.exit_code, limit=held.limit, by=by)
        )
        if self._held.get(held.id) is held and not held.viewers:
            del self._held[held.id]
            await held.terminal.close()
            held.end_watch()

    async def _limit_that_killed(self, held: Held, ended: Exit) -> str:
        """The limit that stopped a terminal's program; empty if it ended by itself, or was closed."""
        if ended.signal is None or held.closed_by is not None:
            return ""
        since = held.mark
        reaper = next((command.reaper for command in held.terminal.commands), 0)
        growth = await self._jail.find_growth(reaper)
        command = EndedCommand(reaper, since.at, has_failed=True, was_alone=False, is_lost=True)
        hit = self._jail.limit_hit(since, ended, command) or growth
        # A full directory stops no program.
        return str(hit) if hit and hit.limit not in TMPFS_LIMITS else ""

    async def _end(self, held: Held, *, by: str = "") -> None:
        held.closed_by = by
        await held.terminal.close()
        if held.recording is not None:
            await asyncio.wait([held.recording])
        held.end_watch()
        self._held.pop(held.id, None)


def _key(terminal: str) -> object:
    return ("terminal", terminal)
