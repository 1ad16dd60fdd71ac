"""The shared dependencies of live sessions, and the callbacks that prepare, open and run them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from typing import TYPE_CHECKING, Any

from hutch.agent.session_recorder import Recorder
from hutch.domain.redaction import Redactor
from hutch.domain.session import QueuedRun, Session
from hutch.sessions.file_and_command_requests import Request
from hutch.sessions.sandbox import Sandbox
from hutch.sessions.session_update_fan_out import Channels
from hutch.store.event_log_interface import EventLog
from hutch.store.message_and_run_rate_limits import NO_RATES, SessionRates
from hutch.store.table_access_interface import Rows
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.files.file_reads_and_changes import CheckPath

if TYPE_CHECKING:
    from hutch.sessions.live_session import LiveSession

MAX_CONCURRENT_HASHES = 2  # files, of all sessions


@dataclass(frozen=True, slots=True)
class Prepared:
    """A workspace that is ready for use."""

    workspace_id: str
    source: str = ""
    commit: str = ""
    warnings: tuple[str, ...] = ()  # about parts of the repository that are not used
    starter_files: int = 0  # how many it began with, instead of a repository


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a run."""

    outcome: str
    reason: str = ""
    code: str = ""  # of the error that it failed with


async def _leave_unchanged(session: Session, sandbox: Sandbox) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class HostCallbacks:
    """The functions of the flows that a live session calls."""

    prepare: Callable[[Session, Recorder], Awaitable[Prepared]]
    open_sandbox: Callable[[Session, Recorder], AbstractAsyncContextManager[Sandbox]]
    perform: Callable[["LiveSession", QueuedRun], Awaitable[Done]]
    # Refuses a request that the user, by id, may not make, or the paths that it turns out to change.
    guard: Callable[["LiveSession", Request[Any], str], AbstractAsyncContextManager[CheckPath]] | None = None
    # The refusal of a session's own test command by a policy; empty if it may be run.
    refuse_tests: Callable[[Session], Awaitable[str]] | None = None
    # Applies the network and limits of a session to its open sandbox. Returns the names of the limits that
    # only a new jail can have.
    adjust: Callable[[Session, Sandbox], Awaitable[Sequence[str]]] = _leave_unchanged


@dataclass(frozen=True, slots=True)
class HostDependencies:
    """Shared by all live sessions of a host."""

    log: EventLog
    rows: Rows
    redactor: Redactor
    channels: Channels
    callbacks: HostCallbacks
    reserved_for: str = ""  # the only worker that may claim runs of these sessions; empty: any worker
    addresses: dict[str, str] = field(default_factory=dict)  # of repositories, with their credentials
    rates: SessionRates = NO_RATES
    opens_in_place: bool = False  # sessions may work in a user's directory itself
    hashing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENT_HASHES))

    @property
    def guarded(self) -> bool:
        """True if sessions come from requests: then they reach only addresses that requests may name."""
        return not self.reserved_for

    def address_of(self, session: Session) -> str:
        """The address of its repository, with the credentials that are not stored in its row."""
        return self.addresses.get(session.id, session.repository)
