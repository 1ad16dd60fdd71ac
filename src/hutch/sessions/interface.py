"""The session host: the only interface of the upper layers to a live session.

Plain data goes in, plain data and streams come out, so a session may live in this
process or on another machine. The log and the rows hold the truth. The state of a host
can be lost at any moment and is rebuilt from them.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, TypeVar

from hutch.domain.ids import SessionId
from hutch.domain.log_entry_audience import Reader, VisibleEntry
from hutch.sessions.collaborative_editing.open_document import OpenDocument, Peer
from hutch.sessions.file_and_command_requests import Request
from hutch.system.lazy_dataclass import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Delta:
    """A part of a reply as it arrives. It has no number and is not stored: only the whole reply is."""

    run_id: str
    turn: int
    # again: the request is repeated, earlier parts are void, and the text says why and when;
    # resumed: earlier parts are void, the parts so far follow;
    # progress: a long step of the preparation continues; tests: a test run, whose id is `run_id`, continues
    kind: Literal["text", "thinking", "call", "arguments", "again", "resumed", "progress", "tests"]
    text: str
    call_id: str = ""
    tool: str = ""
    audience: str | None = None  # the same as that of the event it belongs to


Update = VisibleEntry | Delta


class Viewer(Protocol):
    """One viewer of a terminal: an iterator of (number of the first byte, bytes)."""

    seq: int
    missed_bytes: int  # requested, but no longer in the buffer

    def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]: ...

    def mask(self, masked: bool) -> None:
        """From now on show a `*` for each byte of a secret, or show all bytes as they are."""
        ...

    def acknowledge(self, count: int) -> None:
        """Report that `count` more bytes were displayed. The program waits for viewers that are too slow."""
        ...

    async def write(self, data: bytes) -> None: ...

    def write_some(self, data: bytes) -> int:
        """Write as much as fits without waiting; returns the number of bytes, which may be 0."""
        ...

    def resize(self, columns: int, rows: int) -> None: ...

    @property
    def agent_types(self) -> bool:
        """True while the session's agent types in the terminal."""
        ...

    def on_agent_typing(self, changed: Callable[[], None]) -> None:
        """Call this whenever `agent_types` changes, until the viewer detaches."""
        ...

    @property
    def blocking_s(self) -> float:
        """For how many seconds the program has been waiting for this viewer."""
        ...

    @property
    def exit_code(self) -> int | None:
        """Of the program, once it is known (see `has_result`); None if a signal ended it."""
        ...

    @property
    def limit(self) -> str:
        """The limit that killed the program: the setting and its value. Empty if none did."""
        ...

    @property
    def has_result(self) -> bool:
        """True when the exit code and the limit are known, soon after the iterator has ended."""
        ...


class Stream(Protocol):
    """A connection to a port in a jail."""

    async def read(self, max_bytes: int = 65536) -> bytes:
        """The next bytes; b"" at the end."""
        ...

    async def write(self, data: bytes) -> None: ...

    async def end(self) -> None:
        """Close the connection for writing."""
        ...

    def close(self) -> None: ...


class SessionHost(Protocol):
    """Where sessions live."""

    async def open(self, session_id: SessionId) -> None:
        """Open the session's jail. A parked session is woken."""
        ...

    async def input(self, session_id: SessionId) -> None:
        """Process waiting inputs and queued runs. Returns when those that can be taken are in the log."""
        ...

    async def apply_changes(self, session_id: SessionId) -> Sequence[str]:
        """Apply the session's changed network and limits to its jail, if one is open. Returns the names of
        the limits that wait for a new jail."""
        ...

    async def call(self, session_id: SessionId, request: Request[T], *, by: str = "") -> T:
        """Answer a request about files, snapshots, commands or terminals: see `requests`."""
        ...

    def terminal(
        self,
        session_id: SessionId,
        terminal: str,
        *,
        resume: int | None = None,
        masked: bool = True,
        by: str = "",
    ) -> AbstractAsyncContextManager[Viewer]:
        """Watch a terminal, from byte `resume` or from the oldest available; `masked`: see `Viewer.mask`. The
        log names the user `by` for text that this viewer writes."""
        ...

    def document(
        self, session_id: SessionId, path: str, peer: Peer
    ) -> AbstractAsyncContextManager[OpenDocument]:
        """Open a file for an editor that others may have open too."""
        ...

    async def check(self, session_id: SessionId, request: Request[Any], *, by: str) -> None:
        """Raise if the user may not make this request. It is not performed."""
        ...

    async def connect(self, session_id: SessionId, port: int) -> Stream:
        """Open a TCP connection to a port in the jail."""
        ...

    def follow(self, session_id: SessionId, reader: Reader, *, after: int = 0) -> AsyncGenerator[Update]:
        """Yield every entry after a number as this reader may see it, without gap or repetition, and the
        current deltas between them.

        Slow readers miss deltas, but never entries.
        """
        ...

    async def close(self, session_id: SessionId, *, reason: str) -> None:
        """Park the session: close its jail and keep its workspace."""
        ...

    async def remove_workspace(self, workspace_id: str) -> None:
        """Delete the files and snapshots of a session that has ended and is closed."""
        ...
