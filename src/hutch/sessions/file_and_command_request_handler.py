"""Answers to requests about a session's files, snapshots, commands and terminals.

The log records each change, and the user who requested it, before the request is answered.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import structlog

from hutch.agent.session_recorder import Recorder
from hutch.agent.tools.bash import SHELL as AGENTS_PROGRAM
from hutch.agent.tools.similar_paths import similar_paths
from hutch.domain.byte_size_formatting import readable_size
from hutch.domain.current_actor_and_author import Actor, acting, current_actor
from hutch.domain.errors import DoneUnrecorded, HutchError, LimitReached, NotFound, NotRecorded
from hutch.domain.events import CommandSignalled, Event, ShellPrinted
from hutch.domain.redaction import redacted_excerpt
from hutch.edit.file_operation_types import FileChange
from hutch.jail.interface import StreamName
from hutch.jail.output_buffer import INLINE_REDACTION_BYTES
from hutch.jail.shell.background_commands import PRECEDING_BYTES, BackgroundCommand
from hutch.jail.shell.command_results_and_events import Result
from hutch.sessions import file_and_command_requests as requests
from hutch.sessions.agent_terminal_access import AgentTerminals
from hutch.sessions.command_and_terminal_recorder import OutputRecorder
from hutch.sessions.debugging.agent_debugger_access import AgentDebugger
from hutch.sessions.debugging.debug_requests import DebuggerChange, DebuggerRequest
from hutch.sessions.debugging.shared_debugger import SharedDebugger
from hutch.sessions.file_tools_for_users import use_tool
from hutch.sessions.listening_ports import listening
from hutch.sessions.output_log_filter import Make
from hutch.sessions.program_run_without_shell import ProgramRunner
from hutch.sessions.response_redaction import clean_reason, is_text, redacted
from hutch.sessions.sandbox import Sandbox
from hutch.sessions.terminals import Terminals
from hutch.sessions.user_and_automatic_test_runs import UserTests
from hutch.snapshots.git_storage import Snapshot
from hutch.store.unwritten_events import is_storage_failure
from hutch.system.terminal_safe_text import printable
from hutch.workspace.difference_pages_and_patch import find_differences
from hutch.workspace.files.file_reads_and_changes import CheckPath, PathStatus
from hutch.workspace.multiline_secrets_in_matches import hide_across_lines
from hutch.workspace.rule_based_search_filter import HiddenFiles, SearchCheck, hide_secrets
from hutch.workspace.snapshot_file_reading import read_recorded

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
        tests: UserTests,
        debugger: SharedDebugger,
        *,
        hashing: asyncio.Semaphore,
    ) -> None:
        self._hashing = hashing  # shared by all sessions: limits how many files are hashed at a time
        self._hashing_in_session = asyncio.Lock()
        self._sandbox = sandbox
        self._recorder = recorder
        self._redactor = recorder.redactor
        self._output_recorder = output_recorder
        self._programs = ProgramRunner(sandbox, recorder, self.open_output)
        self._terminals = terminals
        self.agent_terminals = AgentTerminals(terminals, recorder.redactor)
        self.agent_debugger = AgentDebugger(debugger, recorder)
        self._tests = tests
        self.debugger = debugger

    async def answer(self, request: requests.Request[Any], *, by: str, check: CheckPath | None = None) -> Any:
        """Answer a request. `check` raises for paths that the user may not change."""
        with acting(Actor(by, "request")):
            try:
                found = await self._answer(request, by=by, check=check)
            except NotFound as error:
                match request:
                    case requests.ReadFile(path) | requests.StatFile(path) | requests.EditFile(path):
                        near = await similar_paths(path, self._sandbox.workspace)
                        raise NotFound(f"{error} {near}".rstrip()) from None
                raise
        return await asyncio.to_thread(redacted, found, self._redactor) if is_text(found) else found

    async def _stat(self, path: str) -> PathStatus:
        """Hash a file: one at a time in a session, and a few on the whole host.

        A sparse file takes no disk space and can be gigabytes long. A few requests for such hashes would
        occupy all threads and block every other session.
        """
        async with self._hashing_in_session, self._hashing:
            return await self._sandbox.workspace.stat(path, hashed=True)

    async def _answer(self, request: requests.Request[Any], *, by: str, check: CheckPath | None) -> Any:
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
                moved = await workspace.move(path, to, replace=replaces, check=check)
                return await self._record_changes(moved)
            case requests.DeleteFile(path):
                return await self._record_changes(await workspace.delete(path, check=check))
            case requests.EditFile(path, edits, if_hash):
                edited = await workspace.edit(path, edits, if_hash=if_hash)
                await self._record_changes(edited.changes)
                return edited
            case requests.ApplyPatch(patch):
                edited = await workspace.apply_patch(patch)
                await self._record_changes(edited.changes)
                return edited
            case requests.SearchFiles(query, read_only):
                mask, left_out = self._redactor.mask, _left_out(check)
                if read_only:
                    return await workspace.grep(jail, query, hidden=hide_secrets(mask, left_out), mask=mask)
                found = await workspace.grep(jail, query, hidden=left_out)
                tree = workspace.mount.directory
                return replace(found, lines=await workspace.work(hide_across_lines, tree, found.lines, mask))
            case requests.FindFiles(pattern, path, limit, offset, read_only, directories):
                hidden = hide_secrets(self._redactor.mask) if read_only else None
                find = partial(workspace.glob, jail, pattern, path=path, directories=directories)
                return await find(limit=limit, offset=offset, hidden=hidden)
            case requests.ReadWithTool() | requests.ChangeWithTool():
                used = await use_tool(self._sandbox, self._redactor, request, _left_out(check))
                if used.changes:
                    await self._record_changes(used.changes)
                return used.answer
        return await self._answer_processes(request, by=by)

    async def _answer_processes(self, request: requests.Request[Any], *, by: str) -> Any:
        """Answer requests about commands, terminals, ports and tests; pass on all others."""
        match request:
            case requests.SaveTypedText():
                return None  # the host has done it
            case requests.RunCommand():
                return await self._run(request)
            case requests.RunProgram():
                return await self._programs.run(request)
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
                await self._terminals.close(id, by=by)
                return await self._record(done=f"The terminal {id} was closed")
            case requests.ListPorts():
                return await listening(self._sandbox.jail)
            case requests.ListTestSuites():
                return await self._tests.suites()
            case requests.StartTests():
                return await self._tests.begin(request, by=by)
            case requests.CancelTests(id):
                return await self._tests.cancel(id)
            case requests.WaitForTests(id, timeout_s):
                return await self._tests.wait(id, timeout_s)
            case requests.StopWatchingTests():
                return self._tests.stop_watching()
            case DebuggerRequest() | DebuggerChange():
                return await self.debugger.answer(request, by=by)
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
            case requests.ReadSnapshotFile(number, path, start, length, sha256):
                return await read_recorded(workspace, number, path, start, length, sha256)
            case requests.Diff(old, new, path, cursor, limit, read_only, ignored, old_path):
                return await find_differences(
                    workspace,
                    old,
                    new,
                    path=path,
                    old_path=old_path,
                    cursor=cursor,
                    limit=limit,
                    binary=not read_only,
                    ignored=ignored,
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
        await self._record([self._recorder.snapshot_taken(taken, why, by=current_actor().by)], done=done)
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
            on_end=output.end,
        )
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
            note=_limit_and_note(result, self._sandbox.jail.policy.limits.output_bytes),
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


def _limit_and_note(result: Result, output_bytes: int) -> str:
    limit = f"The limit {result.limit_hit} was hit." if result.limit_hit else ""
    most = f"The output is longer than output_bytes ({readable_size(output_bytes)}); its middle is omitted."
    cut = most if result.truncated else ""
    return " ".join(filter(None, (limit, cut, result.note)))


class ShellOutput:
    """Records the output of one command in the log, apart from the output of others."""

    def __init__(self, output_recorder: OutputRecorder, shell: str, by: str) -> None:
        self._output_recorder = output_recorder
        self._shell = shell
        self._by = by
        self._background_id: str | None = None

    def add(self, stream: StreamName, data: bytes) -> None:
        self._output_recorder.add((self, stream), data, self._make(stream))

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

    def end(self, continues_as: str | None) -> None:
        """Note the id of the command's later output; None when there will be none."""
        for stream in STREAMS:
            if continues_as is None:
                self._output_recorder.end((self, stream))
            else:
                self._background_id = continues_as
                self._output_recorder.change((self, stream), self._make(stream))


def _left_out(check: CheckPath | None) -> HiddenFiles | None:
    """The files that a search must leave out."""
    return check.hidden if isinstance(check, SearchCheck) else None
