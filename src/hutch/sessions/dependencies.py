"""What every live session stands on, and how it is prepared, opened and worked on."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hutch.agent.recorder import Recorder
from hutch.domain.redaction import Redactor
from hutch.domain.session import QueuedRun, Session
from hutch.sessions.channel import Channels
from hutch.sessions.sandbox import Sandbox
from hutch.store.interface import EventLog
from hutch.store.rows import Rows

if TYPE_CHECKING:
    from hutch.sessions.live_session import LiveSession

HASHED_AT_ONCE = 2  # files, of all sessions


@dataclass(frozen=True, slots=True)
class Prepared:
    """A workspace that was made ready."""

    workspace_id: str
    source: str = ""
    commit: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a run."""

    outcome: str
    reason: str = ""
    code: str = ""  # of the error that it failed with


@dataclass(frozen=True, slots=True)
class HostCallbacks:
    """What the flows do for a live session."""

    prepare: Callable[[Session, Recorder], Awaitable[Prepared]]
    open_sandbox: Callable[[Session, Recorder], AbstractAsyncContextManager[Sandbox]]
    perform: Callable[["LiveSession", QueuedRun], Awaitable[Done]]


@dataclass(frozen=True, slots=True)
class HostDependencies:
    """What every live session of a host uses."""

    log: EventLog
    rows: Rows
    redactor: Redactor
    channels: Channels
    ways: HostCallbacks
    reserved_for: str = ""  # the worker that alone takes up the runs of these sessions; else any does
    addresses: dict[str, str] = field(default_factory=dict)  # of repositories, with their credentials
    hashing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(HASHED_AT_ONCE))

    @property
    def guarded(self) -> bool:
        """Whether sessions come from requests: then they reach only what requests may name."""
        return not self.reserved_for

    def address_of(self, session: Session) -> str:
        """Of its repository, with the credentials that are not kept in its row."""
        return self.addresses.get(session.id, session.repository)
