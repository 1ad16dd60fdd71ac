"""`hutch shell` as a session in the log: its terminal, its commands and their output."""

import asyncio
import shlex
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from hutch.agent.jail_event_conversion import as_event
from hutch.app.in_place_sessions_without_agent import in_place_sessions
from hutch.domain.errors import HutchError, LimitReached, Unavailable
from hutch.domain.events import CommandEnded, CommandStarted
from hutch.jail.egress import EgressAttempt
from hutch.jail.interface import Exit, Size, StreamName
from hutch.jail.jail_startup import Jailed
from hutch.sessions.file_and_command_request_handler import ShellOutput
from hutch.sessions.file_and_command_requests import CloseTerminal, OpenTerminal
from hutch.sessions.live_session import LiveSession
from hutch.sessions.terminal_state_and_viewer import MAX_SIDE
from hutch.settings import LoadedSettings

SHELL = "command-line"  # the shell of a single command
Say = Callable[[str], None]


class RecordedTerminal:
    """A terminal of the session, for `jailed_program.on_terminal`. It is its own reader."""

    def __init__(self, viewer: Any, say: Say) -> None:
        self._viewer, self._say = viewer, say
        self._warned = False
        self.attached = True

    @property
    def fd(self) -> int:
        return int(self._viewer.terminal.fd)

    def attach(self) -> "RecordedTerminal":
        return self

    def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        shown: AsyncIterator[tuple[int, bytes]] = self._viewer.__aiter__()
        return shown

    def acknowledge(self, count: int) -> None:
        self._viewer.acknowledge(count)

    def detach(self) -> None:
        self.attached = False
        self._viewer.detach()

    def resize(self, size: Size) -> None:
        fitting = _fitting(size)
        self._viewer.resize(fitting.columns, fitting.rows)

    async def write(self, data: bytes) -> None:
        """Type. When nothing can be recorded any more, the user can still finish the work and leave."""
        try:
            await self._viewer.write(data)
        except (LimitReached, Unavailable) as error:
            if not self._warned:
                self._warned = True
                self._say(f"Nothing that you do now is recorded: {error}")
            await self._viewer.terminal.write(data)

    async def signal(self, number: int) -> None:
        await self._viewer.terminal.signal(number)

    async def wait(self) -> Exit:
        exit_: Exit = await self._viewer.terminal.wait()
        return exit_


class ShellRecording:
    """The session of one `hutch shell`."""

    def __init__(self, live: LiveSession, by: str, say: Say) -> None:
        self._live, self._by, self._say = live, by, say

    @property
    def session_id(self) -> str:
        return self._live.id

    def note_egress(self, attempt: EgressAttempt) -> None:
        self._live.recorder.report(as_event(attempt))

    @asynccontextmanager
    async def open_terminal(self, size: Size, env: Mapping[str, str]) -> AsyncIterator[RecordedTerminal]:
        """A shell on a terminal of the session."""
        fitting = _fitting(size)
        request = OpenTerminal(fitting.columns, fitting.rows, env=tuple(env.items()))
        opened = await self._live.call(request, by=self._by)
        async with self._live.terminal(opened.id, None, masked=False, by=self._by) as viewer:
            try:
                yield RecordedTerminal(viewer, self._say)
            finally:
                await self._live.call(CloseTerminal(opened.id), by=self._by)

    @asynccontextmanager
    async def command(self, argv: Sequence[str], cwd: str) -> AsyncIterator["CommandRecording"]:
        """Record a single command, from its start to its end."""
        await self._live.recorder.admit()
        recording = CommandRecording(self._live.request_handler.open_output(SHELL))
        about = {"shell": SHELL, "command": shlex.join(argv), "cwd": cwd, "by": self._by}
        self._live.recorder.report(CommandStarted.model_validate(about))
        await self._live.recorder.append()  # before its output
        began = time.monotonic()
        try:
            yield recording
        finally:
            recording.output.end(None)
            exit_, duration_s = recording.exit, round(time.monotonic() - began, 6)
            ended = {
                "exit_code": exit_.code if exit_ else None,
                "signal": exit_.signal if exit_ else None,
                "timed_out": recording.timed_out,
                "duration_s": duration_s,
            }
            self._live.recorder.report(CommandEnded.model_validate({**about, **ended}))


class CommandRecording:
    """The output and the end of a single command."""

    def __init__(self, output: ShellOutput) -> None:
        self.output = output
        self.exit: Exit | None = None
        self.timed_out = False

    def add(self, stream: StreamName, data: bytes) -> None:
        self.output.add(stream, data)


@asynccontextmanager
async def record_shell(
    loaded: LoadedSettings, directory: Path, jail: Jailed, say: Say
) -> AsyncIterator[ShellRecording]:
    """Open a session for a shell in a jail; the session ends with the block."""
    real = await asyncio.to_thread(directory.resolve)
    async with AsyncExitStack() as stack:
        opening = in_place_sessions(loaded).open(real, jail, purpose=f"shell in {real}")
        try:
            live = await stack.enter_async_context(opening)
        except (HutchError, OSError) as error:
            raise _not_recorded(error) from error
        yield ShellRecording(live, (await live.sessions.get(live.id)).owner, say)


def _not_recorded(error: HutchError | OSError) -> HutchError:
    text = f"This shell cannot be recorded, so nothing was run. {error}\nTo work without a log, add --no-log."
    return LimitReached(text, limit=error.limit) if isinstance(error, LimitReached) else Unavailable(text)


def _fitting(size: Size) -> Size:
    """A size that a session's terminal may have."""
    return Size(rows=min(max(size.rows, 1), MAX_SIDE), columns=min(max(size.columns, 1), MAX_SIDE))
