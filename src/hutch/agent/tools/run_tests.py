"""run_tests: run the repository's tests and report what failed and where."""

import asyncio
import shlex
from typing import ClassVar

from pydantic import Field

from hutch.agent.testing.report import Report
from hutch.agent.testing.runner_detection import Runner, detect, with_words
from hutch.agent.testing.test_run import run_tests
from hutch.agent.tools.interface import Arguments, Context, ToolResult
from hutch.domain.author import current_actor
from hutch.domain.errors import BadRequest, Denied, NotFound
from hutch.jail.policy import MAX_TIMEOUT_S

MAX_PATHS = 5000  # that are searched for test files


class RunTestsArguments(Arguments):
    arguments: str = ""
    timeout_s: float | None = Field(None, gt=0, le=MAX_TIMEOUT_S)


class RunTests:
    name: ClassVar[str] = "run_tests"
    description: ClassVar[str] = (
        "Run the repository's tests and get passed/failed/skipped with the first failures. "
        "arguments: paths or options for the runner, to run some of them."
    )
    arguments: ClassVar[type[Arguments]] = RunTestsArguments
    parallel: ClassVar[bool] = False

    async def __call__(self, args: RunTestsArguments, context: Context) -> ToolResult:
        try:
            words = shlex.split(args.arguments)
        except ValueError as error:
            raise BadRequest(f"arguments cannot be split into words: {error}. Check the quotes.") from None
        report = await run(context, words, args.timeout_s)
        return ToolResult(report.text(), data={"tests": report.data(), "partial": bool(words)})


async def run(context: Context, words: list[str], timeout_s: float | None = None) -> Report:
    """Run the tests once."""
    runner = with_words(await find_runner(context), words)
    timeout_s = timeout_s or context.test_timeout_s
    with context.working(current_actor()):
        return await run_tests(
            context.jail,
            runner,
            timeout_s=timeout_s,
            memory_bytes=context.test_memory_bytes,
            clean=context.redactor.redact,
        )


async def find_runner(context: Context) -> Runner:
    """The runner of the workspace."""
    workspace = context.workspace

    def read(path: str) -> bytes | None:
        try:
            return workspace.files.read_bytes(path)[0]
        except (NotFound, Denied, BadRequest):
            return None

    page = await workspace.entries(recursive=True, ignores=True, limit=MAX_PATHS)
    top = await workspace.entries(limit=MAX_PATHS)
    names = list(
        dict.fromkeys([*(entry.path for entry in top.entries), *(entry.path for entry in page.entries)])
    )
    return await asyncio.to_thread(detect, read, names, command=context.test_command)
