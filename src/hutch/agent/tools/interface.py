"""What a tool is: a name, a shape for its arguments, and something that it does.

The same tools serve the agent and any client of the MCP server. A result is text
for the model and, beside it, the same as data for programs.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict

from hutch.domain.redaction import Redactor
from hutch.edit.file_change import FileChange
from hutch.jail.interface import Jail, StreamName
from hutch.jail.shell.result import LostOutput, Result
from hutch.jail.shell.shells import Shells
from hutch.workspace.workspace import Workspace


class Arguments(BaseModel):
    """What all tools' arguments share: a name that is not known is a mistake to be told."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a call."""

    text: str  # what the model reads
    ok: bool = True
    data: Mapping[str, Any] = field(default_factory=dict)  # the same for programs
    changes: tuple[FileChange, ...] = ()


Ask = Callable[[str, str], Awaitable[str]]  # a question, and the id under which it is open already, if it is
Hides = Callable[[str, str], Callable[[str], bool]]


class CommandOutput(Protocol):
    """Where the output of one command goes."""

    def add(self, stream: StreamName, data: bytes) -> None:
        """The command has printed this."""
        ...

    def omit(self, stream: StreamName, lost: LostOutput) -> None:
        """What it prints first on a stream follows this, which was not kept."""
        ...

    async def record(self, result: Result) -> None:
        """All that belongs to a result was added; return when it is recorded."""
        ...


OpenOutput = Callable[[str], CommandOutput]  # for a command of this shell


@dataclass(frozen=True, slots=True)
class Context:
    """What tools work on, for one run or one caller."""

    workspace: Workspace
    jail: Jail
    shells: Shells
    redactor: Redactor = field(default_factory=Redactor)  # for texts that are cut before they are returned
    ignore: tuple[str, ...] = ()  # patterns of files that are not to be looked at
    test_command: str | None = None  # found by looking when not set
    test_timeout_s: float | None = None  # that of the `test` limits when not set
    ask: Ask | None = None  # None when nobody is there to answer
    read: dict[str, str] = field(default_factory=dict)  # hashes of files as the model last saw them
    outputs: Iterator[int] = field(default_factory=lambda: count(1))  # of those that were too long to be told
    open_output: OpenOutput | None = None  # records what commands print
    hides: Hides | None = None  # what rules keep from a tool that looks below a path


class Tool(Protocol):
    """Something that the agent can do."""

    name: ClassVar[str]
    description: ClassVar[str]
    arguments: ClassVar[type[Arguments]]
    parallel: ClassVar[bool]  # whether it may run beside others: it only reads

    async def __call__(self, given: Any, context: Context) -> ToolResult:
        """Do it. Whatever `HutchError` is raised reaches the model as its message."""
        ...
