"""delegate and helper_changes: other agents work on parts of the task, each on a copy of the files.

A helper is a session of its own. Its changes come back as a difference, which the agent merges into its
files or drops.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Protocol

from pydantic import Field

from hutch.agent.tools.interface import Arguments, Context, ToolResult
from hutch.domain.errors import BadRequest
from hutch.domain.helper_agent_events import HelperEnded
from hutch.domain.run_limits import RunLimits

DELEGATE = "delegate"
MAX_TASKS = 16  # of one call
NO_HELPERS = "There are no helpers in this session. Do the work yourself."


class HelperTask(Arguments):
    """A task for one helper."""

    task: str = Field(min_length=1, max_length=20_000)
    persona: str = Field("", max_length=100)
    max_turns: int | None = Field(None, ge=1)
    max_cost_usd: float | None = Field(None, gt=0)


class RunBudget(Protocol):
    """The remaining budget of a run."""

    def remaining(self) -> RunLimits: ...

    def charge(self, ended: HelperEnded) -> None:
        """Count the usage of a helper."""
        ...


class Helpers(Protocol):
    """Starts the helpers of a session, and takes their changes."""

    async def delegate(self, tasks: Sequence[HelperTask], context: Context) -> ToolResult: ...

    async def show(self, name: str, path: str) -> ToolResult: ...

    async def take(
        self, name: str, context: Context, *, drops: bool, marks_conflicts: bool
    ) -> ToolResult: ...


class DelegateArguments(Arguments):
    tasks: Annotated[list[HelperTask], Field(min_length=1, max_length=MAX_TASKS)]


class Delegate:
    name: ClassVar[str] = DELEGATE
    description: ClassVar[str] = (
        "Give independent parts of the task to helpers: parallel agents, each with a copy of your files, "
        "that know only their task text. Waits for all; then merge their changes."
    )
    arguments: ClassVar[type[Arguments]] = DelegateArguments
    parallel: ClassVar[bool] = False

    async def __call__(self, args: DelegateArguments, context: Context) -> ToolResult:
        if context.helpers is None:
            raise BadRequest(NO_HELPERS)
        return await context.helpers.delegate(args.tasks, context)


class HelperChangesArguments(Arguments):
    helper: str = Field(min_length=1, max_length=20)
    action: Literal["show", "merge", "merge_with_markers", "drop"]
    path: str = Field("", max_length=4096)


class HelperChanges:
    name: ClassVar[str] = "helper_changes"
    description: ClassVar[str] = (
        "Show (all, or of one path), merge or drop a helper's changes. On conflicts merge changes "
        "nothing and names the files; merge_with_markers writes conflict markers."
    )
    arguments: ClassVar[type[Arguments]] = HelperChangesArguments
    parallel: ClassVar[bool] = False

    async def __call__(self, args: HelperChangesArguments, context: Context) -> ToolResult:
        if context.helpers is None:
            raise BadRequest(NO_HELPERS)
        if args.action == "show":
            return await context.helpers.show(args.helper, args.path)
        if args.path:
            raise BadRequest("A path goes with action 'show' only: the changes are merged as a whole.")
        return await context.helpers.take(
            args.helper,
            context,
            drops=args.action == "drop",
            marks_conflicts=args.action == "merge_with_markers",
        )
