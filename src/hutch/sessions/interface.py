"""The session host: all that anybody above knows of a session that lives.

Plain data goes in, plain data and streams come out, so a session may live in this
process or on another machine. Truth is in the log and the rows; what is here can
be lost at any moment and is made anew.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from hutch.domain.audience import Reader, VisibleEntry
from hutch.domain.ids import SessionId
from hutch.sessions.requests import Request

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply as it comes. It has no number and is not kept: the whole reply will be."""

    run_id: str
    turn: int
    # again: what came so far is void; progress: a long step of preparing goes on
    kind: Literal["text", "thinking", "call", "arguments", "again", "progress"]
    text: str
    call_id: str = ""
    tool: str = ""
    audience: str | None = None  # as that of the event it is a piece of


Update = VisibleEntry | Delta


class Viewer(Protocol):
    """Somebody who watches a terminal: an iterator of (number of the first byte, bytes)."""

    seq: int
    missed_bytes: int  # asked for, and no longer there

    def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]: ...

    def mask(self, masked: bool) -> None:
        """From now on show a `*` for each byte of a secret, or show all bytes as they are."""
        ...

    def acknowledge(self, count: int) -> None:
        """So many more bytes were shown; the program waits for those who are too far behind."""
        ...

    async def write(self, data: bytes) -> None: ...

    def write_some(self, data: bytes) -> int:
        """As much as is taken at once, which may be nothing."""
        ...

    def resize(self, columns: int, rows: int) -> None: ...

    @property
    def held_up_s(self) -> float:
        """For how long the program has been waiting for this one."""
        ...

    @property
    def exit_code(self) -> int | None:
        """Of the program, once the iterator has ended."""
        ...


class Stream(Protocol):
    """A connection to a port in a jail."""

    async def read(self, most: int = 65536) -> bytes:
        """The next bytes; b"" at the end."""
        ...

    async def write(self, data: bytes) -> None: ...

    async def end(self) -> None:
        """Nothing more will be written."""
        ...

    def close(self) -> None: ...


class SessionHost(Protocol):
    """Where sessions live."""

    async def open(self, session_id: SessionId) -> None:
        """Have its jail open; one that was parked is woken."""
        ...

    async def input(self, session_id: SessionId) -> None:
        """Inputs wait to be taken, or a run was queued. Returns when what can be taken now is in the log."""
        ...

    async def call(self, session_id: SessionId, request: Request[T], *, by: str = "") -> T:
        """Files, snapshots, commands, terminals: see `requests`."""
        ...

    def terminal(
        self, session_id: SessionId, terminal: str, *, resume: int | None = None, masked: bool = True
    ) -> AbstractAsyncContextManager[Viewer]:
        """Watch a terminal, from a byte on or from the oldest there is; `masked`: see `Viewer.mask`."""
        ...

    async def connect(self, session_id: SessionId, port: int) -> Stream:
        """A TCP connection to a port in the jail."""
        ...

    def follow(self, session_id: SessionId, reader: Reader, *, after: int = 0) -> AsyncGenerator[Update]:
        """Every entry after a number as this reader may see it, without gap or repetition, and the deltas of
        now among them.

        Deltas are left out for who is too slow for them; entries never are.
        """
        ...

    async def close(self, session_id: SessionId, *, reason: str) -> None:
        """Park it: its jail is closed, its workspace kept."""
        ...

    async def remove_workspace(self, workspace_id: str) -> None:
        """Delete the files and snapshots of a session that has ended and is closed."""
        ...
