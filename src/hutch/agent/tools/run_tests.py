"""run_tests: run the repository's tests and report what failed and where."""

import shlex
from typing import ClassVar

from pydantic import Field

from hutch.agent.repository_testing.session_test_runs import RequestedTests
from hutch.agent.repository_testing.test_results import Report
from hutch.agent.repository_testing.test_selection import Selection, select
from hutch.agent.tools.interface import Arguments, Context, ToolResult
from hutch.domain.current_actor_and_author import AGENT, current_actor
from hutch.domain.errors import BadRequest
from hutch.jail.policy import MAX_TIMEOUT_S


class RunTestsArguments(Arguments):
    arguments: str = ""
    files: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    failed: bool = False
    timeout_s: float | None = Field(None, gt=0, le=MAX_TIMEOUT_S)

    def selection(self) -> Selection:
        """Which tests to run."""
        try:
            words = tuple(shlex.split(self.arguments))
        except ValueError as error:
            raise BadRequest(f"arguments cannot be split into words: {error}. Check the quotes.") from None
        if words and (self.files or self.tests or self.failed):
            raise BadRequest("Give either arguments for the runner, or files, tests or failed.")
        return Selection(self.files, self.tests, self.failed, words)


class RunTests:
    name: ClassVar[str] = "run_tests"
    description: ClassVar[str] = (
        "Run the repository's tests: all, or only these files, these tests (names as in results) or those "
        "that failed last; arguments: options for the runner instead."
    )
    arguments: ClassVar[type[Arguments]] = RunTestsArguments
    parallel: ClassVar[bool] = False

    async def __call__(self, args: RunTestsArguments, context: Context) -> ToolResult:
        actor = current_actor()
        requested = RequestedTests(
            selection=args.selection(),
            cause="tool",
            by=actor.by or AGENT,
            actor=actor,
            run_id=context.run_id,
            call_id=actor.call_id,
            timeout_s=args.timeout_s,
            waits=True,
        )
        report = await run(context, requested)
        data = {"tests": report.data(), "failing": report.failing, "partial": not requested.selection.is_all}
        return ToolResult(report.text(), data=data)


async def run(context: Context, requested: RequestedTests) -> Report:
    """Run tests once. They are recorded, unless the context is that of no session."""
    tests = context.repository_tests
    if context.tests is not None:
        return (await context.tests.run(tests, requested)).report
    runners = select(await tests.suites(), requested.selection)
    with context.working(requested.actor or current_actor()):
        return await tests.run(runners, timeout_s=requested.timeout_s)
