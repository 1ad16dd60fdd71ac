"""update_task: reports on the task that the agent was assigned to: progress, and evidence for criteria."""

from typing import ClassVar, Protocol

from pydantic import Field

from hutch.agent.tools.interface import Arguments, Context, ToolResult
from hutch.domain.errors import BadRequest, LimitReached

MAX_REPORTS = 200  # of one run


class UpdateTaskArguments(Arguments):
    progress: str = Field("", max_length=2000)
    criterion: int = Field(0, ge=0, le=1000)
    evidence: str = Field("", max_length=1000)


class TaskReports(Protocol):
    """The task of a session, as its agent may change it."""

    async def progress(self, text: str) -> str:
        """Add a line to the progress log. Returns a text for the agent."""
        ...

    async def prove(self, criterion: int, evidence: str, context: Context) -> str:
        """Mark a criterion, by its number, as met. Raises if the evidence does not show that."""
        ...


class UpdateTask:
    """Only the sessions of tasks have this tool. It changes no file."""

    name: ClassVar[str] = "update_task"
    description: ClassVar[str] = (
        "Report on your task. progress: one line for its log. criterion and evidence: mark the acceptance "
        "criterion of this number as met; evidence is the name of a test that passed in the last run, or the "
        "path of a file."
    )
    arguments: ClassVar[type[Arguments]] = UpdateTaskArguments
    parallel: ClassVar[bool] = False

    def __init__(self, reports: TaskReports) -> None:
        self._reports = reports
        self._made = 0

    async def __call__(self, args: UpdateTaskArguments, context: Context) -> ToolResult:
        if self._made >= MAX_REPORTS:
            raise LimitReached(
                f"There are already {MAX_REPORTS} reports of this run. Continue with the work.",
                limit="task_reports",
            )
        if bool(args.criterion) != bool(args.evidence.strip()):
            raise BadRequest("criterion and evidence go together: the number, and a test or a file.")
        if not args.criterion and not args.progress.strip():
            raise BadRequest("There is nothing to report. Give progress, or criterion and evidence.")
        said = []
        if args.criterion:
            said.append(await self._reports.prove(args.criterion, args.evidence.strip(), context))
        if args.progress.strip():
            said.append(await self._reports.progress(args.progress.strip()))
        self._made += 1
        return ToolResult(" ".join(said))
