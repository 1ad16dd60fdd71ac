"""The interface of a jail: start programs, watch them, reach their ports.

`Jailed` is the implementation with bubblewrap. The unsafe one runs plain processes, for
machines whose operator has explicitly allowed that.
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Final, Literal, Protocol

from hutch.domain.errors import LimitReached
from hutch.jail.output_buffer import NO_OUTPUT, StreamOutput
from hutch.jail.policy import Limits, Policy
from hutch.system.lazy_dataclass import dataclass


class Pipe(Enum):
    """Requests a standard input that is written to while the command runs."""

    PIPE = "pipe"
    SOCKET = "socket"  # bidirectional, and no other process inside can open it through /proc


PIPE: Final = Pipe.PIPE
SOCKET: Final = Pipe.SOCKET

StreamName = Literal["stdout", "stderr"]
OnOutput = Callable[[StreamName, bytes], None]


@dataclass(frozen=True, slots=True)
class Size:
    rows: int = 24
    columns: int = 80


FIXED_LIMITS = ("workspace_depth",)  # no setting raises them


@dataclass(frozen=True, slots=True)
class LimitHit:
    """A limit that stopped a command: the setting's name, and its value as readable text."""

    limit: str
    value: str
    raise_by: str = ""  # the setting that raises it, if it is another one

    def __str__(self) -> str:
        return f"{self.limit} {self.value}"

    def error(self) -> LimitReached:
        """The same as an error, for callers that cannot continue."""
        return LimitReached(
            f"The command was stopped by the limit {self.limit} ({self.value}). "
            + (
                "It cannot be raised."
                if self.limit in FIXED_LIMITS
                else f"Use less or raise {self.raise_by or self.limit}."
            ),
            limit=self.limit,
        )


@dataclass(frozen=True, slots=True)
class Exit:
    """How a command ended: by itself with a code, or by a signal."""

    code: int | None
    signal: int | None
    cpu_s: float = 0.0
    peak_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A command that was run to its end, with its output and usage."""

    exit_code: int | None  # None when a signal ended it
    signal: int | None
    stdout_output: StreamOutput = NO_OUTPUT
    stderr_output: StreamOutput = NO_OUTPUT
    timed_out: bool = False
    truncated: bool = False
    output_path: Path | None = None  # both streams in order of arrival, when memory was not enough
    output_cut: bool = False  # the file is incomplete too: there was not enough space
    duration_s: float = 0.0
    cpu_s: float = 0.0
    peak_bytes: int = 0
    limit_hit: LimitHit | None = None

    @property
    def stdout(self) -> bytes:
        """Head and tail, with a line in between that says how much was omitted."""
        return bytes(self.stdout_output)

    @property
    def stderr(self) -> bytes:
        return bytes(self.stderr_output)


class Reader(Protocol):
    """The host's end of an output pipe."""

    fd: int

    async def read(self, max_bytes: int = 65536) -> bytes:
        """The next bytes; b"" when there will be no more."""
        ...

    def close(self) -> None: ...


class Writer(Protocol):
    """The host's end of an input pipe."""

    fd: int

    async def write(self, data: bytes) -> None: ...

    def write_some(self, data: bytes) -> int:
        """As much as fits now, which may be nothing."""
        ...

    def close(self) -> None: ...


class Process(Protocol):
    """A command in a jail. The caller owns its streams and closes them, or the whole process."""

    @property
    def stdin(self) -> Writer | None: ...

    @property
    def stdout(self) -> Reader | None: ...

    @property
    def stderr(self) -> Reader | None: ...

    @property
    def terminal(self) -> int | None:
        """The master's descriptor, non-blocking."""
        ...

    @property
    def has_jobs(self) -> bool:
        """True while a process that it started is alive, apart from a terminal's foreground."""
        ...

    async def wait(self) -> Exit:
        """Wait for the command itself to end; processes it started may live on."""
        ...

    async def signal(self, number: int) -> None:
        """Send a signal to the command's process group."""
        ...

    async def kill(self) -> None:
        """Kill the command and all it ever started; returns when they have ended."""
        ...

    def close(self) -> None:
        """Close the descriptors; the command continues."""
        ...


OnStart = Callable[[Process], None]


class Jail(Protocol):
    """An isolated environment that runs commands."""

    policy: Policy
    unsafe: bool  # no isolation: plain processes of this machine
    workspace: str  # its path for commands

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout_s: float | None = None,
        limits: Limits | None = None,
        on_output: OnOutput | None = None,
        on_start: OnStart | None = None,
    ) -> Finished:
        """Run a command to its end. `on_start` gets its process, to signal it meanwhile."""
        ...

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | Pipe | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        limits: Limits | None = None,
        terminal: Size | None = None,
        descriptor_3: bytes | None = None,
    ) -> Process:
        """Start a command that the caller manages. Beside a terminal it can read a few bytes from
        `descriptor_3`, a socket that no other process inside can open."""
        ...

    async def connect(self, port: int, *, host: str = "127.0.0.1") -> socket.socket:
        """Open a TCP connection to a port inside."""
        ...

    async def listen(self, port: int = 0, *, host: str = "127.0.0.1") -> socket.socket:
        """Make a listening TCP socket inside, served by the host."""
        ...

    async def clear(self) -> None:
        """Kill every process inside; the jail stays open."""
        ...

    async def close(self) -> None: ...
