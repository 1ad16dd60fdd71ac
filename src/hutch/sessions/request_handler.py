"""Answers to requests about a session's files, snapshots, commands and terminals.

The log records each change, and the user who requested it, before the request is answered.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import structlog

from hutch.agent.session_recorder import Recorder
from hutch.agent.tools.bash import SHELL as AGENTS_PROGRAM
from hutch.domain.author import Actor, acting, current_actor
from hutch.domain.errors import DoneUnrecorded, HutchError, LimitReached, NotFound, NotRecorded
from hutch.domain.events import CommandSignalled, Event, ShellPrinted
from hutch.domain.redaction import redacted_excerpt
from hutch.edit.file_change import FileChange
from hutch.jail.interface import StreamName
from hutch.jail.output_buffer import INLINE_REDACTION_BYTES
from hutch.jail.shell.background import PRECEDING_BYTES, BackgroundCommand
from hutch.jail.shell.command_result import LostOutput, Result
from hutch.sessions import requests
from hutch.sessions.listening_ports import listening
from hutch.sessions.output_recorder import OutputRecorder
from hutch.sessions.output_stream import Make
from hutch.sessions.response_redaction import clean_reason, is_text, redacted
from hutch.sessions.sandbox import Sandbox
from hutch.sessions.terminals import Terminals
from hutch.snapshots.storage import Snapshot
from hutch.store.unwritten_events import is_storage_failure
from hutch.system.terminal_text import printable
from hutch.workspace.cross_line_secrets import hide_across_lines
from hutch.workspace.diff_pages import find_differences
from hutch.workspace.files.files import PathStatus
from hutch.workspace.search import hide_secrets

AGENTS_SHELL = "agent"
STREAMS: tuple[StreamName, ...] = ("stdout", "stderr")
ANSWER_BYTES = 256 * 1024  # of a background command's output
logger = structlog.get_logger()


class RequestHandler:
    """Answers the requests for one sandbox."""

    def __init__(
        self,
        sandbox: Sandbox,
        recorder: Recorder,
        output_recorder: OutputRecorder,
        terminals: Terminals,
        *,
        hashing: asyncio.Semaphore,
    ) -> None:
        self._hashing = hashing  # shared by all sessions: limits how many files are hashed at a time
        self._hashing_here = asyncio.Lock()
        self._sandbox = sandbox
        self._recorder = recorder
        self._redactor = recorder.redactor
        self._output_recorder = output_recorder
        self._terminals = terminals

    async def answer(self, request: requests.Request[Any], *, by: str) -> Any:
        with acting(Actor(by, "request")):
            found = await self._answer(request, by=by)
        return await asyncio.to_thread(redacted, found, self._redactor) if is_text(found) else found

    async def _stat(self, path: str) -> PathStatus:
        """Hash a file: one at a time in a session, and a few on the whole host.

        A sparse file takes no disk space and can be gigabytes long. A few requests for such hashes would
        occupy all threads and block every other session.
        """
        async with self._hashing_here, self._hashing:
            return await self._sandbox.workspace.stat(path, hashed=True)

    async def _answer(self, request: requests.Request[Any], *, by: str) -> Any:
        """Answer requests about files; pass on all others."""
        workspace, jail = self._sandbox.workspace, self._sandbox.jail
        match request:
            case requests.ListFiles(path, recursive, ignores, cursor, limit):
                return await workspace.entries(
                    path, recursive=recursive, ignores=ignores, cursor=cursor, limit=limit
                )
            case requests.StatFile(path, hashed):
                return await self._stat(path) if hashed else await workspace.stat(path)
            case requests.ReadFile(path, start, length):
                return await workspace.read_range(path, start, length)
            case requests.WriteFile(path, data, if_hash, create):
                made = (
                    workspace.create(path, data) if create else workspace.write(path, data, if_hash=if_hash)
                )
                change = await made
                await self._record_changes([change])
                return change
            case requests.MakeDirectory(path):
                return await self._record_changes(await workspace.make_directory(path))
            case requests.MoveFile(path, to, replaces):
                return await self._record_changes(await workspace.move(path, to, replace=replaces))
            case requests.DeleteFile(path):
                return await self._record_changes(await workspace.delete(path))
            case requests.EditFile(path, edits, if_hash):
                edited = await workspace.edit(path, edits, if_hash=if_hash)
                await self._record_changes(edited.changes)
                return edited
            case requests.ApplyPatch(patch):
                edited = await workspace.apply_patch(patch)
                await self._record_changes(edited.changes)
                return edited
            case requests.SearchFiles(query, read_only):
                mask = self._redactor.mask
                if read_only:
                    return await workspace.grep(jail, query, mask=mask)
                found = await workspace.grep(jail, query)
                tree = workspace.mount.directory
                return replace(found, lines=await workspace.work(hide_across_lines, tree, found.lines, mask))
            case requests.FindFiles(pattern, path, limit, offset, read_only):
                hidden = hide_secrets(self._redactor.mask) if read_only else None
                return await workspace.glob(
                    jail, pattern, path=path, limit=limit, offset=offset, hidden=hidden
                )
        return await self._answer_processes(request, by=by)

    async def _answer_processes(self, request: requests.Request[Any], *, by: str) -> Any:
        """Answer requests about commands, terminals and ports; pass on all others."""
        match request:
            case requests.RunCommand():
                return await self._run(request)
            case requests.ListCommands():
                await self._try_to_record()
                return [self._state(each) for each in self._sandbox.shells.background]
            case requests.ReadCommand(id, offset):
                await self._try_to_record()
                return self._read(id, offset)
            case requests.SignalCommand(id, signal):
                return await self._signal(id, signal, by)
            case requests.OpenTerminal(columns, rows, env, program):
                return await self._terminals.open(columns, rows, by=by, env=dict(env), program=program)
            case requests.ListTerminals():
                return self._terminals.list()
            case requests.CloseTerminal(id):
                await self._terminals.close(id)
                return await self._record(done=f"The terminal {id} was closed")
            case requests.ListPorts():
                return await listening(self._sandbox.jail)
        return await self._snapshots(request)

    async def _snapshots(self, request: requests.Request[Any]) -> Any:
        workspace = self._sandbox.workspace
        match request:
            case requests.ListSnapshots():
                return await workspace.list_snapshots()
            case requests.TakeSnapshot(reason):
                return await self._record_snapshot(await workspace.snapshot(reason, named=True))
            case requests.SnapshotForFork():
                return await workspace.snapshot("before a fork")
            case requests.RestoreSnapshot(number, path):
                reason = f"before going back to {number}"
                before = await workspace.snapshot(reason)
                await self._record_snapshot(before, reason)
                await workspace.restore(number, path)
                reason = f"back to {number}"
                after = await workspace.snapshot(reason)
                await self._record_snapshot(after, reason, done=f"Snapshot {number} was restored")
                return before
            case requests.ReadSnapshotFile(number, path, start, length):
                return await workspace.read_snapshot(number, path, start, length)
            case requests.Diff(old, new, path, cursor, limit, read_only):
                return await find_differences(
                    workspace, old, new, path=path, cursor=cursor, limit=limit, binary=not read_only
                )
        raise NotFound(f"There is no request '{type(request).__name__}'.")

    async def _record_changes(self, changes: Sequence[FileChange]) -> Sequence[FileChange]:
        """Write the changes, which the change recorder has noted, to disk."""
        path = printable(self._redactor.redact(changes[0].path)) if len(changes) == 1 else ""
        done = f"'{path}' was changed" if path else f"{len(changes)} paths were changed"
        await self._record(done=done)
        return changes

    async def _record_snapshot(self, taken: Snapshot, reason: str = "", done: str = "") -> Snapshot:
        """Record a snapshot. If no file has changed since, `taken` is an earlier one with the reason of that
        time; then pass `reason`."""
        why = printable(self._redactor.redact(reason)) if reason else clean_reason(taken, self._redactor)
        done = done or f"Snapshot {taken.id} was taken"
        await self._record([self._recorder.snapshot_taken(taken, why)], done=done)
        return taken

    async def _record(self, events: Sequence[Event] = (), *, done: str) -> None:
        """Write events to disk, after all output and events that came before them.

        If that fails, the error says what was done, as a clause.
        """
        try:
            await self._recorder.append(events)
            await self._recorder.confirm()
        except HutchError as error:
            if is_storage_failure(error):
                is_full = isinstance(error, LimitReached)
                kind = NotRecorded if is_full else DoneUnrecorded
                raise kind(f"{done}, but that could not be recorded. {error}") from error
            raise

    async def _try_to_record(self) -> None:
        """Write pending output to the log before a client sees it. A failed write is only logged."""
        try:
            await self._record(done="Commands have printed output")
        except HutchError as error:
            logger.warning("session.output_waits", error=str(error))

    async def _signal(self, id: str, signal: int, by: str) -> None:
        command = self._sandbox.shells.background.get(id)
        if command.running:
            await self._recorder.append([CommandSignalled(background_id=id, signal=signal, by=by)])
        await command.signal(signal)

    async def _run(self, request: requests.RunCommand) -> requests.CommandResult:
        program = AGENTS_PROGRAM if request.shell == AGENTS_SHELL else None
        shell = self._sandbox.shells.shell(request.shell, program=program)
        output = self.open_output(request.shell)
        result = await shell.run(
            request.command,
            timeout_s=request.timeout_s,
            yield_s=request.yield_s,
            on_output=output.add,
            on_lost=output.omit,
            on_end=output.end,
        )
        output.set_background_id(result.id)
        await self._record(done="The command was started" if result.running else "The command was run")
        if len(result.stdout_output) + len(result.stderr_output) <= INLINE_REDACTION_BYTES:
            return self._result(result)
        return await asyncio.to_thread(self._result, result)

    def open_output(self, shell: str) -> "ShellOutput":
        """Record the output of the next command in this shell."""
        return ShellOutput(self._output_recorder, shell, current_actor().by)

    def _result(self, result: Result) -> requests.CommandResult:
        def clean(data: bytes) -> str:
            return self._redactor.redact(data.decode(errors="replace"))

        def clean_running(data: bytes) -> str:
            return self._redactor.redact(self._redactor.drop_partial_secret(data.decode(errors="replace")))

        clean_end = clean_running if result.running else clean
        return requests.CommandResult(
            exit_code=result.exit_code,
            signal=result.signal,
            stdout=result.stdout_output.render(clean, clean_end=clean_end),
            stderr=result.stderr_output.render(clean, clean_end=clean_end),
            timed_out=result.timed_out,
            running=result.running,
            id=result.id,
            cwd=self._redactor.redact(result.cwd),
            truncated=result.truncated,
            duration_s=round(result.duration_s, 6),
            note=result.note,
        )

    def _read(self, id: str, offset: int) -> requests.CommandOutput:
        command = self._sandbox.shells.background.get(id)
        tape = command.read(offset)
        data, start = tape.before + tape.data, len(tape.before)
        around = data[: start + ANSWER_BYTES + PRECEDING_BYTES]
        end = min(start + ANSWER_BYTES, len(data))
        if tape.running and len(around) == len(data):  # the rest of a secret may be about to come
            end = max(start, min(end, self._redactor.held_start(around)))
        text = redacted_excerpt(
            around, start, end, lambda part: self._redactor.redact(part.decode(errors="replace"))
        )
        about = asdict(self._state(command))
        printed = tape.start + end - start
        return requests.CommandOutput(**about, text=text, start=tape.start, end=printed)

    def _state(self, command: BackgroundCommand) -> requests.CommandState:
        summary, result, clean = command.summary(), command.result(), self._redactor.redact
        return requests.CommandState(
            id=summary.id,
            shell=summary.shell,
            command=clean(summary.command),
            cwd=clean(summary.cwd),
            running=summary.running,
            exit_code=summary.exit_code,
            signal=result.signal,
            timed_out=result.timed_out,
            duration_s=summary.duration_s,
        )


class ShellOutput:
    """Records the output of one command in the log, apart from the output of others."""

    def __init__(self, output_recorder: OutputRecorder, shell: str, by: str) -> None:
        self._output_recorder = output_recorder
        self._shell = shell
        self._by = by
        self._background_id: str | None = None

    def add(self, stream: StreamName, data: bytes) -> None:
        self._output_recorder.add((self, stream), data, self._make(stream))

    def omit(self, stream: StreamName, lost: LostOutput) -> None:
        """Record that the shell dropped output of the command before the first that it delivered."""
        self._output_recorder.continue_after((self, stream), lost.end, lost.total_bytes, self._make(stream))

    def _make(self, stream: StreamName) -> Make:
        background_id = self._background_id

        def make(text: str, skipped: int) -> Event:
            return ShellPrinted(
                shell=self._shell,
                stream=stream,
                text=text,
                skipped_bytes=skipped,
                background_id=background_id,
                by=self._by,
            )

        return make

    def end(self) -> None:
        """Note that the command has printed its last output."""
        for stream in STREAMS:
            self._output_recorder.end((self, stream))

    def set_background_id(self, id: str | None) -> None:
        """Note that the command continues in the background under this id, unless it is None."""
        self._background_id = id
        if id is not None:
            for stream in STREAMS:
                self._output_recorder.change((self, stream), self._make(stream))
