"""A terminal with its state, and one viewer of it."""

import asyncio
from collections.abc import AsyncIterator, Callable

from hutch.agent.session_recorder import Recorder
from hutch.domain.errors import BadRequest
from hutch.jail.interface import Size
from hutch.jail.leftover_job_detection import JobWatch
from hutch.jail.limits.limit_enforcement import Mark
from hutch.jail.shared_terminal import Terminal, TerminalReader
from hutch.sessions.agent_terminal_access import AgentTyping
from hutch.sessions.collaborative_editing.typed_text_before_commands import TypedText
from hutch.sessions.commands_typed_in_terminal import TerminalCommands
from hutch.sessions.file_and_command_requests import TerminalState
from hutch.sessions.terminal_input_recorder import TerminalInput
from hutch.sessions.terminal_masking import MaskedReader

MAX_SIDE = 1000  # rows or columns


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
        key: str,
        mark: Mark,
    ) -> None:
        self.key = key  # of the shell's marks
        self.id = id
        self.by = by
        self.closed_by: str | None = None  # None: its program ends by itself; "": Hutch closes it
        self.terminal = terminal
        self.size = size
        self.input = input
        self.commands = commands
        self.viewers = 0
        self.mark = mark  # when it was opened, or has last waited for a command
        self.exit_code: int | None = None
        self.limit = ""  # that killed its program
        self.has_result = False  # the two before are known
        self.is_marked = False  # the shell marks its prompts
        self.recording: asyncio.Task[None] | None = None
        self.jobs: JobWatch | None = None
        self.has_jobs = False
        self.typing = AgentTyping()

    @property
    def is_working(self) -> bool:
        """True while a command runs in it, or what one has left, such as a server."""
        if self.terminal.ended:
            return False
        return self.commands.is_running or self.has_jobs

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
        resized: Callable[[Held, Size, str], None],
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
        self.typed_text: TypedText | None = None  # in editors; None: there are none
        self._on_detach: Callable[[], None] = lambda: None
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
        self._on_detach()
        self._on_detach = lambda: None

    def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        return self._shown

    def mask(self, masked: bool) -> None:
        self._shown.masked = masked

    def acknowledge(self, count: int) -> None:
        self._reader.acknowledge(count)

    async def write(self, data: bytes) -> None:
        if not self._recorder.admits:  # its output could not be recorded
            await self._recorder.admit()
        if self.typed_text is not None and self.typed_text.is_unsaved_at(data):
            await self.typed_text.save()
        self._typed(self._held, self._by)
        input = self._held.input
        # Before it is written: the program may answer at once.
        input.record(data, self._by, hidden=input.is_hidden)
        await self._held.terminal.write(data)

    def write_some(self, data: bytes) -> int:
        if not self._recorder.admits or (self.typed_text is not None and self.typed_text.is_unsaved_at(data)):
            return 0
        self._typed(self._held, self._by)
        input = self._held.input
        hidden = input.is_hidden
        count = self._held.terminal.write_some(data)
        if count:
            input.record(data[:count], self._by, hidden=hidden)
        return count

    def resize(self, columns: int, rows: int) -> None:
        self._resized(self._held, checked_size(columns, rows), self._by)

    @property
    def agent_types(self) -> bool:
        return self._held.typing.agent_types

    def on_agent_typing(self, changed: Callable[[], None]) -> None:
        self._held.typing.listeners.append(changed)
        self._on_detach = lambda: self._held.typing.listeners.remove(changed)

    @property
    def blocking_s(self) -> float:
        return self._reader.blocking_s

    @property
    def exit_code(self) -> int | None:
        return self._held.exit_code

    @property
    def limit(self) -> str:
        return self._held.limit

    @property
    def has_result(self) -> bool:
        return self._held.has_result


def checked_size(columns: int, rows: int) -> Size:
    if not (0 < columns <= MAX_SIDE and 0 < rows <= MAX_SIDE):
        raise BadRequest(f"{columns}x{rows} is not a terminal size. Give 1 to {MAX_SIDE} columns and rows.")
    return Size(rows=rows, columns=columns)
