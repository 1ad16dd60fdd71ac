"""The session host of one process: it owns the live sessions."""

import asyncio
import os
import secrets
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import structlog

from hutch.domain.errors import BadRequest, Conflict, HutchError, LimitReached, NotFound
from hutch.domain.events import EventsOmitted, SessionParked, TerminalEnded
from hutch.domain.ids import SessionId
from hutch.domain.log_entry_audience import PUBLIC, Reader
from hutch.domain.session import SessionState
from hutch.sessions.abandoned_in_place_sessions import end_abandoned
from hutch.sessions.collaborative_editing.open_document import OpenDocument, Peer
from hutch.sessions.collaborative_editing.open_documents import Documents
from hutch.sessions.collaborative_editing.typed_text_before_commands import TypedText
from hutch.sessions.file_and_command_requests import ReadFile, Request
from hutch.sessions.host_dependencies_and_callbacks import HostDependencies
from hutch.sessions.input_processing import process_inputs
from hutch.sessions.interface import Stream, Update, Viewer
from hutch.sessions.jail_port_stream import SocketStream
from hutch.sessions.live_option_changes import apply_changes
from hutch.sessions.live_session import LiveSession
from hutch.sessions.refusals_without_jail import refuse_without_jail
from hutch.sessions.run_worker import Worker
from hutch.sessions.sandbox import Sandbox
from hutch.store.run_queue import RunCapacity, Runs
from hutch.store.session_inputs import Inputs
from hutch.store.sessions import Sessions
from hutch.store.test_runs import StoredTests
from hutch.store.unfinished_commands_and_terminals import UnfinishedWork, find_unfinished_work
from hutch.system.clock_without_jumps import STEADY
from hutch.system.lazy_dataclass import dataclass

T = TypeVar("T")
RemoveWorkspace = Callable[[str], Awaitable[None]]  # by its id
TIMEOUT_S = 5.0  # for an input to be processed before its sender is answered; it is stored in any case
POLL_INTERVAL_S = 2.0  # between checks for idle sessions
# A session in one of these states may have a jail.
PERHAPS_OPEN: tuple[SessionState, ...] = ("queued", "starting", "idle", "running", "waiting", "paused")
LOST_MS = 500  # of output may be lost: it is batched and checked for secrets before it is written
logger = structlog.get_logger()


DEFAULT_CAPACITY = RunCapacity(total=8, per_user=4)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a host."""

    runs: RunCapacity = DEFAULT_CAPACITY
    open: int = 200  # jails
    idle_s: float = 900.0  # after which a session is parked
    lease_ms: int = 30_000


DEFAULT_BOUNDS = Bounds()


class LocalHost:
    """`SessionHost` in this process; the only one on its database, or one of several."""

    def __init__(
        self,
        dependencies: HostDependencies,
        remove_workspace: RemoveWorkspace,
        bounds: Bounds = DEFAULT_BOUNDS,
    ) -> None:
        self._dependencies = dependencies
        self._remove_workspace = remove_workspace
        self._bounds = bounds
        self._lives: dict[SessionId, LiveSession] = {}
        self._documents: dict[SessionId, Documents] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None
        self._is_closed = False
        self._failure: HutchError | None = None  # why a command stopped working
        self.worker = Worker(
            dependencies.reserved_for or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}",
            Runs(dependencies.rows),
            self.live,
            self._on_idle,
            make_room=self._make_room,
            capacity=bounds.runs,
            lease_ms=bounds.lease_ms,
            on_storage_failure=self._on_storage_failure if dependencies.reserved_for else None,
        )

    async def start(self) -> None:
        """Resume the work that a crash or a shutdown interrupted. No other host may use this database."""
        rows = self._dependencies.rows
        await end_abandoned(self._dependencies.log, rows)
        await Runs(rows).pause_abandoned()
        if not self._dependencies.reserved_for:
            unfinished = await Runs(rows).reclaim_all()
            await self._recover({run.session_id for run in unfinished})
            for session_id in await Inputs(rows).sessions_with_unprocessed():
                self._process_soon(self.live(session_id))
        self.worker.start()
        self._watching = asyncio.ensure_future(self._watch())

    async def close_all(self, *, reason: str = "Hutch was stopped") -> None:
        """Leave every run open, close every jail."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        await self.worker.close()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._is_closed = True
        results = await asyncio.gather(
            *(live.shut_down(reason=reason) for live in self._lives.values()), return_exceptions=True
        )
        for error in results:
            if isinstance(error, BaseException) and self._failure is None:
                logger.error("session.not_parked", error=repr(error))
        self._lives.clear()

    # --- the interface ---

    async def open(self, session_id: SessionId) -> None:
        async with self.live(session_id).used():
            pass

    async def input(self, session_id: SessionId) -> None:
        await self._save_typed_text(session_id)  # for the agent; and an ended session writes no files
        live = self.live(session_id)
        input_lock = self._process_soon(live)
        await asyncio.wait([input_lock], timeout=TIMEOUT_S)

    async def apply_changes(self, session_id: SessionId) -> Sequence[str]:
        live = self._lives.get(session_id)
        return await apply_changes(live) if live is not None else ()

    async def call(self, session_id: SessionId, request: Request[T], *, by: str = "") -> T:
        live = await self._usable(session_id, changes=request.changes)
        if request.reads_typed_text:
            await self._save_typed_text(session_id)
        async with live.guarded(request, by) as check:
            answer: T = await live.call(request, by=by, check=check)
            return answer

    @asynccontextmanager
    async def terminal(
        self,
        session_id: SessionId,
        terminal: str,
        *,
        resume: int | None = None,
        masked: bool = True,
        by: str = "",
    ) -> AsyncIterator[Viewer]:
        live = await self._usable(session_id, changes=False)
        async with live.terminal(terminal, resume, masked=masked, by=by) as viewer:
            viewer.typed_text = TypedText(lambda: self._documents.get(session_id))
            yield viewer

    @asynccontextmanager
    async def document(self, session_id: SessionId, path: str, peer: Peer) -> AsyncIterator[OpenDocument]:
        live = await self._usable(session_id, changes=True)
        async with live.guarded(ReadFile(path), peer.user_id):  # it may be open already, and is not read then
            documents = self._documents.get(session_id)
        if documents is None:
            async with live.used(changes=False) as sandbox:
                place = sandbox.workspace.directory / "documents"
            documents = self._documents.setdefault(session_id, self._documents_of(session_id, place))
        try:
            async with documents.join(path, peer) as document:
                yield document
        finally:
            if not documents.is_used:
                self._documents.pop(session_id, None)

    async def _save_typed_text(self, session_id: SessionId) -> None:
        if (documents := self._documents.get(session_id)) is not None:
            await documents.save()

    def _documents_of(self, session_id: SessionId, place: Path) -> Documents:
        async def call(request: Request[Any], by: str) -> Any:
            return await self.call(session_id, request, by=by)

        async def follow() -> AsyncGenerator[Update]:
            head = await self._dependencies.log.head(session_id)
            async with aclosing(self.follow(session_id, PUBLIC, after=head.seq)) as updates:
                async for update in updates:
                    yield update

        return Documents(place, call, follow)

    async def check(self, session_id: SessionId, request: Request[Any], *, by: str) -> None:
        async with (await self._usable(session_id, changes=request.changes)).guarded(request, by):
            return

    async def connect(self, session_id: SessionId, port: int) -> Stream:
        if not 0 < port < 65536:
            raise BadRequest(f"{port} is not a port. Ports are 1 to 65535.")
        live = await self._usable(session_id, changes=True)
        async with live.used(changes=False) as sandbox:  # a parked session has no program that listens
            try:
                return SocketStream(await sandbox.jail.connect(port))
            except NotFound as refused:
                try:  # programs that listen on `localhost` often use only this address
                    return SocketStream(await sandbox.jail.connect(port, host="::1"))
                except NotFound:
                    raise refused from None

    def follow(self, session_id: SessionId, reader: Reader, *, after: int = 0) -> AsyncGenerator[Update]:
        return self._dependencies.channels.follow(session_id, reader, after=after)

    async def close(self, session_id: SessionId, *, reason: str) -> None:
        live = self._lives.get(session_id)
        if live is not None and live.run is None:
            await live.park(reason=reason)

    async def remove_workspace(self, workspace_id: str) -> None:
        await self._remove_workspace(workspace_id)

    # --- for operators ---

    @asynccontextmanager
    async def sandbox(self, session_id: SessionId) -> AsyncIterator[Sandbox]:
        """The sandbox of a session, for reads in this process, such as a fork."""
        live = await self._usable(session_id, changes=False)
        async with live.used(changes=False) as sandbox:
            yield sandbox

    @property
    def addresses(self) -> dict[str, str]:
        """The addresses of the sessions' repositories, with credentials that are not stored in rows."""
        return self._dependencies.addresses

    @property
    def jails(self) -> int:
        """The number of open jails."""
        return sum(live.is_open for live in self._lives.values())

    @property
    def followers(self) -> int:
        return self._dependencies.channels.followers

    # --- internals ---

    def live(self, session_id: SessionId) -> LiveSession:
        live = self._lives.get(session_id)
        if live is None:
            live = self._lives[session_id] = LiveSession(session_id, self._dependencies)
            live.is_closed, live.on_waiting = self._is_closed, self.worker.notify
        return live

    async def _usable(self, session_id: SessionId, *, changes: bool) -> LiveSession:
        session = await Sessions(self._dependencies.rows).get(session_id)
        if session.state == "ended" and changes:
            raise Conflict(f"The session {session_id} has ended. Fork it to continue from its last state.")
        refuse_without_jail(session, opens_in_place=self._dependencies.opens_in_place)
        if not session.workspace_id and session.state == "ended":
            raise NotFound(f"The session {session_id} has no files: {session.reason or 'it never got any.'}")
        if not session.workspace_id and session.state in ("queued", "starting"):
            raise Conflict(f"The session {session_id} is not ready yet: it is {session.state}. Wait for it.")
        live = self.live(session_id)
        if not live.is_open:
            await self._free_a_jail()
        return live

    async def _free_a_jail(self) -> None:
        """At the limit of open jails, park an idle session: first those that are only read, then the one that
        was unused for longest."""
        while self.jails >= self._bounds.open:
            idle = [live for live in self._lives.values() if live.is_open and not live.busy]
            if not idle:
                raise LimitReached(
                    f"All {self._bounds.open} jails are in use. End a session, or raise sessions.open.",
                    limit="sessions.open",
                )
            await min(idle, key=lambda live: (live.is_awake, live.used_at)).park(
                reason="another session needed the jail"
            )

    async def _make_room(self, live: LiveSession) -> None:
        """Park an idle session for a run, if necessary. A run that was claimed starts in any case."""
        if not live.is_open:
            try:
                await self._free_a_jail()
            except HutchError as error:  # all are in use, or the other session cannot be parked
                logger.info("session.no_jail_freed", error=str(error))

    def _on_idle(self, live: LiveSession) -> None:
        """After a run, process the messages that arrived too late for it as prompts."""
        live.inbox.clear()
        live.undelivered.clear()
        if not self.worker.closing:
            self._process_soon(live)

    def _on_storage_failure(self, error: HutchError) -> None:
        """Report to the command that nothing can be recorded. Its runs are paused when it ends."""
        self._failure = self._failure or error
        self._dependencies.channels.fail(error)

    def _process_soon(self, live: LiveSession) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self._process(live))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _process(self, live: LiveSession) -> None:
        try:
            await process_inputs(live)
        except HutchError as error:  # the input stays stored, and is processed with the next one
            logger.warning("session.input_not_taken", session_id=live.id, error=str(error))
        except Exception:
            logger.exception("session.input_failed", session_id=live.id)
        self.worker.notify()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(min(POLL_INTERVAL_S, self._bounds.idle_s / 2))
            for live in list(self._lives.values()):
                if live.busy or time.monotonic() - live.used_at < self._bounds.idle_s:
                    continue
                try:
                    await live.park(reason=f"unused for {self._bounds.idle_s / 60:.3g} minutes")
                except HutchError as error:
                    logger.warning("session.not_parked", session_id=live.id, error=str(error))
                if not (live.busy or live.is_open or live.undelivered or live.input_lock.locked()):
                    self._lives.pop(live.id, None)

    async def _recover(self, interrupted: set[SessionId]) -> None:
        """Correct the states of sessions whose process has ended."""
        rows, log = self._dependencies.rows, self._dependencies.log
        sessions = Sessions(rows)
        others = await Runs(rows).reserved_sessions()
        await StoredTests(rows).mark_lost(excluding=others)
        for session_id in await sessions.in_states(PERHAPS_OPEN):
            if session_id not in others:
                await self._note_lost_output(session_id)
        await Runs(rows).requeue_unpaused()
        # The server was killed after the end of the last run, before the session's state changed.
        for session_id in await sessions.correct_states(["queued"], "parked", without_runs=True):
            if (await log.head(session_id)).ended:
                await sessions.set(session_id, state="ended")
        alive: tuple[SessionState, ...] = ("starting", "idle", "running", "waiting")
        for session_id in await sessions.correct_states(alive, "parked", excluding=others):
            if (await log.head(session_id)).ended:
                await sessions.set(session_id, state="ended")
                continue
            await log.append(session_id, [SessionParked(reason="the server ended without a shutdown")])
            if session_id in interrupted:
                await sessions.set(session_id, state="queued")

    async def _note_lost_output(self, session_id: SessionId) -> None:
        """Note in a log that its newest output may be missing: output is shown before it is recorded."""
        log = self._dependencies.log
        head = await log.head(session_id)
        unfinished = await find_unfinished_work(self._dependencies.rows, session_id)
        if not unfinished or head.ended:
            return
        gap = EventsOmitted(
            cause="crash",
            reason=f"The server ended without a shutdown while {_describe(unfinished)}. Input and output of "
            f"the last moments, usually less than {LOST_MS} ms, may be missing.",
            since_ms=head.at_ms,
            until_ms=max(head.at_ms, STEADY.now_ms()),
            count=0,
        )
        await log.append(session_id, [gap, *(TerminalEnded(terminal=id) for id in unfinished.terminals)])


def _describe(work: UnfinishedWork) -> str:
    many = len(work.terminals) > 1
    open_ = f"terminal{'s' if many else ''} {', '.join(work.terminals)} {'were' if many else 'was'} open"
    ran = "1 command was running" if work.commands == 1 else f"{work.commands} commands were running"
    return " and ".join(part for part, is_so in ((open_, work.terminals), (ran, work.commands)) if is_so)
