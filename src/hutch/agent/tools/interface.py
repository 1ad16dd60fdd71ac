"""The interface of tools: a name, a schema for the arguments, and a function.

The same tools serve the agent and the clients of the MCP server. A result is text
for the model, and the same as data for programs.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel, ConfigDict

from hutch.agent.repository_testing.session_test_runs import SessionTests
from hutch.agent.repository_testing.workspace_test_suite_runs import (
    DEFAULT_OPTIONS,
    RepositoryTests,
    SuiteOptions,
    Working,
)
from hutch.domain.current_actor_and_author import acting
from hutch.domain.errors import HutchError
from hutch.domain.image_header import ImageHeader
from hutch.domain.redaction import Redactor
from hutch.edit.file_operation_types import FileChange
from hutch.jail.interface import Jail, StreamName
from hutch.jail.shell.shared_jails_and_shells import Shells
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.code_search.search_by_meaning import Embeds
from hutch.workspace.workspace import Workspace

if TYPE_CHECKING:
    from hutch.agent.tools.delegate import Helpers, RunBudget
    from hutch.agent.tools.shared_debugger import AgentDebugging
    from hutch.agent.tools.terminal_read_and_type import SharedTerminals


class Arguments(BaseModel):
    """The base class of tools' arguments. Unknown names are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call."""

    text: str  # for the model
    ok: bool = True
    data: Mapping[str, Any] = field(default_factory=dict)  # the same for programs
    changes: tuple[FileChange, ...] = ()
    image: "ImageResult | None" = None


@dataclass(frozen=True, slots=True)
class ImageResult:
    """An image that a tool has read, for a model that sees."""

    path: str
    header: ImageHeader
    size: int
    sha256: str
    data: str  # Base64


# Takes a question, its id if it is already open, and answers to choose from.
Ask = Callable[[str, str, Sequence[str]], Awaitable[str]]
Hides = Callable[[str, str], Callable[[str], bool]]
ReadOriginal = Callable[[str], Awaitable[bytes | None]]  # as it was when the session began
LastAuthor = Callable[[str], Awaitable[str]]  # of the newest change of a path; empty if none is known
Mask = Callable[[bytes], bytes]


class CommandOutput(Protocol):
    """Receives the output of one command."""

    def add(self, stream: StreamName, data: bytes) -> None:
        """Take output that the command has printed."""
        ...

    def end(self, continues_as: str | None) -> None:
        """Note the id of the command's later output, from the background or from processes that it left
        running; None when there will be none."""
        ...


OpenOutput = Callable[[str], CommandOutput]  # for a command of this shell


@dataclass(frozen=True, slots=True)
class Context:
    """The workspace, jail and helpers that tools use, for one run or one caller."""

    workspace: Workspace
    jail: Jail
    shells: Shells
    redactor: Redactor = field(default_factory=Redactor)  # for texts that are cut before they are returned
    ignore: tuple[str, ...] = ()  # patterns of files that searches skip
    suite_options: SuiteOptions = DEFAULT_OPTIONS  # how tests are run
    tests: SessionTests | None = None  # runs and records tests; None where nothing is recorded
    run_id: str = ""  # of the agent's run
    ask: Ask | None = None  # None when no user can answer
    read: dict[str, str] = field(default_factory=dict)  # hashes of files as the model last saw them
    outputs: Iterator[int] = field(default_factory=lambda: count(1))  # numbers of saved long outputs
    open_output: OpenOutput | None = None  # records the output of commands
    working: Working = acting  # notes that the current actor's programs may change files
    hides: Hides | None = None  # makes a filter for files that rules hide from a search
    mask: Mask | None = None  # for callers who may only read: nothing may confirm a guess of a secret
    if_hash: str | None = None  # change a file only if it still has this hash
    allowed_commands: tuple[str, ...] = ()  # programs that `exec` may run; empty: all
    last_author: LastAuthor | None = None  # None where there is no other author
    terminals: "SharedTerminals | None" = None  # that people have opened; None when there can be none
    debugger: "AgentDebugging | None" = None  # of the session; None when there can be none
    read_original: ReadOriginal | None = None  # None where nothing is recorded
    notes_of: dict[str, str | None] = field(default_factory=dict)  # paths of notes, by directory
    notes_seen: set[str] = field(default_factory=set)  # that the model got
    helpers: "Helpers | None" = None  # None where the agent may not delegate
    budget: "RunBudget | None" = None  # of the agent's run
    embedder: Embeds | None = None  # None where code is searched by words only

    async def read_at_start(self, path: str) -> bytes | None:
        """A small file as it was when the session began, so that an agent cannot write its instructions."""
        if self.read_original is not None:
            return await self.read_original(path)
        try:
            return await self.workspace.read_small(path)
        except HutchError:
            return None

    @property
    def repository_tests(self) -> RepositoryTests:
        """The tests of the workspace."""
        return RepositoryTests(self.workspace, self.jail, self.suite_options, self.redactor, self.working)


class Tool(Protocol):
    """A function that the agent can call."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def arguments(self) -> type[Arguments]: ...

    @property
    def parallel(self) -> bool:
        """True if it may run concurrently with others, because it only reads."""
        ...

    async def __call__(self, args: Any, context: Context) -> ToolResult:
        """Make a call. The message of a raised `HutchError` reaches the model."""
        ...
