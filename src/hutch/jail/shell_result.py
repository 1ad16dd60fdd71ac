"""What a shell tells about its commands: results, pieces of output, and events for the audit."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hutch.jail.seam import LimitHit, StreamName
from hutch.jail.stream_output import AROUND_BYTES, NO_OUTPUT, StreamOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A command of a shell that has ended, or goes on in the background."""

    exit_code: int | None  # None when the shell did not live to tell, or the command still runs
    signal: int | None = None  # that ended the command's shell, or the command at its timeout
    stdout_output: StreamOutput = NO_OUTPUT
    stderr_output: StreamOutput = NO_OUTPUT
    timed_out: bool = False
    cwd: str = ""  # where the next command will start
    duration_s: float = 0.0
    truncated: bool = False
    output_path: Path | None = None  # both streams as they came, when memory was not enough
    output_cut: bool = False  # there was not enough room for all of it there either
    limit_hit: LimitHit | None = None
    restarted: bool = False  # the next command gets a new shell: same directory and exported variables
    note: str = ""  # why, for people and models
    running: bool = False  # it goes on in the background
    id: str | None = None  # under which it does

    @property
    def stdout_bytes(self) -> bytes:
        """Head and tail, with a line between that tells what was left out."""
        return bytes(self.stdout_output)

    @property
    def stderr_bytes(self) -> bytes:
        return bytes(self.stderr_output)

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode(errors="replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Lost:
    """Output that was not kept."""

    total_bytes: int = 0
    end: bytes = b""  # the last of it: not to be shown, but to understand what follows

    def more(self, data: bytes) -> "Lost":
        return Lost(self.total_bytes + len(data), (self.end + data)[-AROUND_BYTES:])


OnLost = Callable[[StreamName, Lost], None]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of output as it came; the last one has none, but the result."""

    stream: StreamName | Literal["result"]
    data: bytes = b""
    result: Result | None = None


@dataclass(frozen=True, slots=True)
class CommandStarted:
    """For the audit: a command was given to a shell."""

    shell: str
    command: str
    cwd: str


@dataclass(frozen=True, slots=True)
class CommandYielded:
    """For the audit: it took longer than its caller would wait, and goes on under an id."""

    shell: str
    command: str
    id: str


@dataclass(frozen=True, slots=True)
class CommandEnded:
    """For the audit: it ended by itself, by a signal or by its timeout."""

    shell: str
    command: str
    cwd: str  # where it began
    exit_code: int | None
    signal: int | None
    timed_out: bool
    duration_s: float
    id: str | None = None  # if it had gone on in the background


@dataclass(frozen=True, slots=True)
class JobsLeft:
    """For the audit: a command has ended, or is about to, and something that it started goes on."""

    shell: str


@dataclass(frozen=True, slots=True)
class JobsEnded:
    """For the audit: nothing goes on any more that commands had left."""

    shell: str


ShellEvent = CommandStarted | CommandYielded | CommandEnded | JobsLeft | JobsEnded
