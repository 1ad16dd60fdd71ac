"""The interface of tools: a name, a schema for the arguments, and a function.

The same tools serve the agent and the clients of the MCP server. A result is text
for the model, and the same as data for programs.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict

from hutch.domain.author import Actor, acting
from hutch.domain.redaction import Redactor
from hutch.edit.file_change import FileChange
from hutch.jail.interface import Jail, StreamName
from hutch.jail.shell.command_result import LostOutput
from hutch.jail.shell.shells import Shells
from hutch.workspace.workspace import Workspace


class Arguments(BaseModel):
    """The base class of tools' arguments. Unknown names are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call."""

    text: str  # for the model
    ok: bool = True
    data: Mapping[str, Any] = field(default_factory=dict)  # the same for programs
    changes: tuple[FileChange, ...] = ()


Ask = Callable[[str, str], Awaitable[str]]  # takes a question, and its id if it is already open
Hides = Callable[[str, str], Callable[[str], bool]]


class CommandOutput(Protocol):
    """Receives the output of one command."""

    def add(self, stream: StreamName, data: bytes) -> None:
        """Take output that the command has printed."""
        ...

    def omit(self, stream: StreamName, lost: LostOutput) -> None:
        """Note that output is lost before the next output of a stream."""
        ...

    def end(self) -> None:
        """Note that the command has printed its last output."""
        ...

    def set_background_id(self, id: str | None) -> None:
        """Note that the command continues in the background under this id, unless it is None."""
        ...


Working = Callable[[Actor], AbstractContextManager[None]]
OpenOutput = Callable[[str], CommandOutput]  # for a command of this shell


@dataclass(frozen=True, slots=True)
class Context:
    """The workspace, jail and helpers that tools use, for one run or one caller."""

    workspace: Workspace
    jail: Jail
    shells: Shells
    redactor: Redactor = field(default_factory=Redactor)  # for texts that are cut before they are returned
    ignore: tuple[str, ...] = ()  # patterns of files that searches skip
    test_command: str | None = None  # None: detect the runner
    test_timeout_s: float | None = None  # None: that of the `test` profile
    test_memory_bytes: int | None = None  # None: that of the `test` profile
    ask: Ask | None = None  # None when no user can answer
    read: dict[str, str] = field(default_factory=dict)  # hashes of files as the model last saw them
    outputs: Iterator[int] = field(default_factory=lambda: count(1))  # numbers of saved long outputs
    open_output: OpenOutput | None = None  # records the output of commands
    working: Working = acting  # notes that the current actor's programs may change files
    hides: Hides | None = None  # makes a filter for files that rules hide from a search


class Tool(Protocol):
    """A function that the agent can call."""

    name: ClassVar[str]
    description: ClassVar[str]
    arguments: ClassVar[type[Arguments]]
    parallel: ClassVar[bool]  # whether it may run concurrently with others, because it only reads

    async def __call__(self, args: Any, context: Context) -> ToolResult:
        """Make a call. The message of a raised `HutchError` reaches the model."""
        ...
