"""debug: the agent uses the debugger that it shares with the people of the session."""

from typing import Any, ClassVar, Literal, Protocol

from pydantic import Field

from hutch.agent.tools.interface import Arguments, Context, ToolResult
from hutch.domain.errors import Conflict
from hutch.system.lazy_dataclass import dataclass

MAX_EXPRESSION_CHARS = 2000
MAX_BREAKPOINTS = 50
Action = Literal["start", "continue", "next", "step_in", "step_out", "evaluate", "end"]
RUNS_CODE = ("start", "evaluate")


class DebugArguments(Arguments):
    action: Action
    path: str = ""
    test: str = ""
    breakpoints: tuple[str, ...] = Field((), max_length=MAX_BREAKPOINTS)
    expression: str = Field("", max_length=MAX_EXPRESSION_CHARS)

    def touched(self) -> tuple[str, ...]:
        return (self.path,) if self.path else ()

    @property
    def runs_code(self) -> bool:
        """True if rules about commands apply: an unknown program or expression runs."""
        return self.action in RUNS_CODE


@dataclass(frozen=True, slots=True)
class DebugReport:
    """The state after an action, for the model and as data."""

    text: str
    data: dict[str, Any]


class AgentDebugging(Protocol):
    """The debugger of a session, for its agent."""

    async def act(self, args: DebugArguments) -> DebugReport:
        """Perform an action, and wait until the program stops or ends."""
        ...


class Debug:
    name: ClassVar[str] = "debug"
    description: ClassVar[str] = (
        "Debug a file, or a test in it. start runs path to the first of breakpoints (FILE:LINE), else to "
        "its first line."
    )
    arguments: ClassVar[type[Arguments]] = DebugArguments
    parallel: ClassVar[bool] = False

    async def __call__(self, args: DebugArguments, context: Context) -> ToolResult:
        if context.debugger is None:
            raise Conflict("This run has no debugger: its session is not open. Use run_tests or bash.")
        report = await context.debugger.act(args)
        return ToolResult(report.text, data=report.data)
