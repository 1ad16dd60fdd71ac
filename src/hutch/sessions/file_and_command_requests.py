"""The requests that a live session answers, besides inputs: files, snapshots, commands and terminals.

A request is plain data and names the type of its answer. Requests that change
something are marked; a session that has ended answers only the others.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, Literal, TypeVar

from hutch.domain.inputs import Redo, Undo
from hutch.edit.edit_result import EditResult
from hutch.edit.file_operation_types import FileChange
from hutch.snapshots.git_storage import Snapshot
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.difference_pages_and_patch import Difference
from hutch.workspace.files.directory_listing import Page
from hutch.workspace.files.file_reads_and_changes import PathStatus
from hutch.workspace.files.partial_read import Bytes
from hutch.workspace.ripgrep_search import GlobResult, GrepQuery, GrepResult

T = TypeVar("T")
TerminalProgram = Literal["bash", "sh", "zsh"]


class Request(Generic[T]):
    """A request; the type parameter is the type of its answer."""

    __slots__ = ()
    changes: ClassVar[bool] = False
    reads_typed_text: ClassVar[bool] = False  # what people have typed is written to the files before it


class Changing(Request[T]):
    """A request that changes something."""

    __slots__ = ()
    changes: ClassVar[bool] = True


# --- files ---


@dataclass(frozen=True, slots=True)
class ListFiles(Request[Page]):
    path: str = ""
    recursive: bool = False
    ignores: bool = True
    cursor: str | None = None
    limit: int = 1000


@dataclass(frozen=True, slots=True)
class StatFile(Request[PathStatus]):
    path: str
    hashed: bool = True


@dataclass(frozen=True, slots=True)
class ReadFile(Request[Bytes]):
    path: str
    start: int = 0
    length: int = 1 << 20


@dataclass(frozen=True, slots=True)
class WriteFile(Changing[FileChange]):
    path: str
    data: bytes
    if_hash: str | None = None  # only if it still has that hash
    create: bool = False  # only if it does not exist


@dataclass(frozen=True, slots=True)
class MakeDirectory(Changing[Sequence[FileChange]]):
    path: str


@dataclass(frozen=True, slots=True)
class MoveFile(Changing[Sequence[FileChange]]):
    path: str
    to: str
    replace: bool = False


@dataclass(frozen=True, slots=True)
class DeleteFile(Changing[Sequence[FileChange]]):
    path: str


@dataclass(frozen=True, slots=True)
class SaveTypedText(Request[None]):
    """Write what people have typed to the files, before they are copied."""

    reads_typed_text: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class EditFile(Changing[EditResult]):
    path: str
    edits: Sequence[Mapping[str, Any]]
    if_hash: str | None = None  # only if it still has that hash


@dataclass(frozen=True, slots=True)
class ApplyPatch(Changing[EditResult]):
    patch: str


@dataclass(frozen=True, slots=True)
class SearchFiles(Request[GrepResult]):
    query: GrepQuery
    read_only: bool = False  # the caller may not write: lines with secrets are no match


@dataclass(frozen=True, slots=True)
class FindFiles(Request[GlobResult]):
    pattern: str
    path: str = ""
    limit: int = 200
    offset: int = 0
    read_only: bool = False  # the caller may not write: paths with secrets are no match
    directories: bool = False  # find directories instead of files


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """The result of one of the agent's tools."""

    text: str  # for a model
    ok: bool
    data: Mapping[str, Any]  # the same for programs
    image: str = ""  # Base64
    media_type: str = ""  # of the image


@dataclass(frozen=True, slots=True)
class ReadWithTool(Request[ToolAnswer]):
    """Use a tool of the agent that changes nothing: read, list or search files."""

    tool: str
    arguments: Mapping[str, Any]
    read_only: bool = False  # the caller may not write: nothing may confirm a guess of a secret


@dataclass(frozen=True, slots=True)
class ChangeWithTool(Changing[ToolAnswer]):
    """Use a tool of the agent that changes files."""

    tool: str
    arguments: Mapping[str, Any]
    if_hash: str | None = None  # only if the file still has that hash


# --- snapshots ---


@dataclass(frozen=True, slots=True)
class ListSnapshots(Request[Sequence[Snapshot]]):
    pass


@dataclass(frozen=True, slots=True)
class TakeSnapshot(Changing[Snapshot]):
    reads_typed_text: ClassVar[bool] = True
    reason: str


@dataclass(frozen=True, slots=True)
class SnapshotForFork(Request[Snapshot]):
    """A snapshot for a fork. It is not recorded: the log may be full, or the session may have ended."""

    reads_typed_text: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class RestoreSnapshot(Changing[Snapshot]):
    """Answered with a snapshot of the files before the restore."""

    number: int
    path: str = ""


@dataclass(frozen=True, slots=True)
class Diff(Request[Difference]):
    """Between two snapshots; without them, from the session's first to now. Takes no snapshot."""

    old: int | None = None
    new: int | None = None
    path: str = ""
    cursor: str = ""
    limit: int = 1000
    read_only: bool = False  # the caller may not write: a binary patch could hide secrets
    ignored: bool = False  # compare the files that git ignores instead
    old_path: str = ""  # from which the file was moved to `path`


@dataclass(frozen=True, slots=True)
class ReadSnapshotFile(Request[Bytes]):
    """A file as it is in a snapshot, or the target of a link. The path may be as the log shows it; of several
    files that it shows in the same way, the one with this hash."""

    snapshot: int
    path: str
    start: int = 0
    length: int = 1 << 20
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class CheckUndo(Request[None]):
    """Raise an error if an undo would be refused: of the last run, of a step, or of the last undo."""

    step: int = 0
    is_redo: bool = False
    resolves: bool = False  # the caller has decided what happens to changes by others

    @property
    def input(self) -> Undo | Redo:
        return Redo() if self.is_redo else Undo(step=self.step)


# --- commands ---


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """A command that has ended, or continues in the background under `id`."""

    exit_code: int | None
    signal: int | None
    stdout: str
    stderr: str
    timed_out: bool
    running: bool
    id: str | None
    cwd: str
    truncated: bool
    duration_s: float
    note: str


@dataclass(frozen=True, slots=True)
class RunCommand(Changing[CommandResult]):
    reads_typed_text: ClassVar[bool] = True
    command: str
    shell: str = "main"
    timeout_s: float | None = None
    yield_s: float | None = None


@dataclass(frozen=True, slots=True)
class RunProgram(Changing[CommandResult]):
    """Run one program without a shell: nothing in its arguments is interpreted."""

    reads_typed_text: ClassVar[bool] = True

    argv: tuple[str, ...]
    cwd: str = ""  # below the workspace, or absolute in the jail
    stdin: bytes = b""
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandState:
    id: str
    shell: str
    command: str
    cwd: str
    running: bool
    exit_code: int | None
    signal: int | None
    timed_out: bool
    duration_s: float


@dataclass(frozen=True, slots=True)
class ListCommands(Request[Sequence[CommandState]]):
    """List the commands in the background."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOutput(CommandState):
    """The output of a background command, from byte `start` to byte `end`."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ReadCommand(Request[CommandOutput]):
    id: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class SignalCommand(Changing[None]):
    id: str
    signal: int = 15


# --- tests ---


@dataclass(frozen=True, slots=True)
class FoundSuite:
    """Tests that were found: their runner, the command that runs all of them, and where."""

    name: str
    command: str
    directory: str


@dataclass(frozen=True, slots=True)
class ListTestSuites(Request[Sequence[FoundSuite]]):
    """The tests that the files of a session have. None of them is run."""


@dataclass(frozen=True, slots=True)
class StartTests(Changing[str]):
    """Start a test run; answered with its id. With `watch`, it is repeated after each change."""

    reads_typed_text: ClassVar[bool] = True

    files: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    failed: bool = False
    timeout_s: float | None = None
    watch: bool = False


@dataclass(frozen=True, slots=True)
class CancelTests(Changing[None]):
    """Stop a running test run. The results until then are recorded."""

    id: str


@dataclass(frozen=True, slots=True)
class WaitForTests(Request[None]):
    """Wait for the end of a test run, or for `timeout_s`."""

    id: str
    timeout_s: float


@dataclass(frozen=True, slots=True)
class StopWatchingTests(Changing[bool]):
    """Repeat no test run after changes any more; answered with whether one was repeated."""


# --- terminals ---


@dataclass(frozen=True, slots=True)
class TerminalState:
    id: str
    columns: int
    rows: int
    viewers: int
    seq: int  # bytes printed so far
    ended: bool
    exit_code: int | None


@dataclass(frozen=True, slots=True)
class OpenTerminal(Changing[TerminalState]):
    reads_typed_text: ClassVar[bool] = True
    columns: int = 80
    rows: int = 24
    env: tuple[tuple[str, str], ...] = ()  # more variables of its shell
    program: TerminalProgram = "bash"


@dataclass(frozen=True, slots=True)
class ListTerminals(Request[Sequence[TerminalState]]):
    pass


@dataclass(frozen=True, slots=True)
class CloseTerminal(Changing[None]):
    id: str


# --- previews ---


@dataclass(frozen=True, slots=True)
class ListPorts(Request[Sequence[int]]):
    """List the ports that programs in the jail listen on."""
