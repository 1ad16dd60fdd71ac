"""Grades the agent's work in a case with tests that it could not see.

The test runner is chosen before the agent starts, from the start files and the hidden ones. So the
agent's files cannot select another runner.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from hutch.agent.repository_testing.runner_definition import Runner, with_words
from hutch.agent.repository_testing.runner_detection import detect
from hutch.agent.repository_testing.test_results import Report
from hutch.agent.repository_testing.test_run_in_jail import run_tests
from hutch.domain.errors import BadRequest, Denied, NotFound
from hutch.edit.atomic_apply import read_operations
from hutch.flows.evaluation.case_definition import EvalCase
from hutch.jail.interface import Jail
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.workspace import Workspace

MAX_PATHS = 5000  # paths, for names of tests
MAX_NAMES = 500  # of tests, in one command
MAX_REASON_LINES = 30  # of the output of failing tests


@dataclass(frozen=True, slots=True)
class CaseTests:
    """The settings for the tests of a case, which the case itself overrides."""

    command: str | None = None  # None: detect the runner
    timeout_s: float | None = None
    memory_bytes: int | None = None


DEFAULT_TESTS = CaseTests()


@dataclass(frozen=True, slots=True)
class Grade:
    """The final result of the tests."""

    passed: bool
    reason: str
    tests: tuple[dict[str, Any], ...] = ()  # of each run of them, for programs


async def choose_runner(workspace: Workspace, case: EvalCase, command: str | None = None) -> Runner:
    """Choose the runner of the case's tests, from the files before the agent's work. Writes nothing."""
    page = await workspace.entries(recursive=True, ignores=True, limit=MAX_PATHS)
    names = dict.fromkeys([*(entry.path for entry in page.entries), *case.hidden_tests, *_patched(case)])

    def read(path: str) -> bytes | None:
        if path in case.hidden_tests:
            return case.hidden_tests[path].encode()
        try:
            return workspace.files.read_bytes(path)[0]
        except (NotFound, Denied, BadRequest):
            return None

    return detect(read, list(names), command=case.test_command or command)


async def place_tests(workspace: Workspace, case: EvalCase, first: int) -> None:
    """Write the hidden tests, replacing any files of the agent at the same paths."""
    for path in _patched(case):
        with suppress(NotFound):  # a new test, which the agent has not created
            await workspace.restore(first, path)
    if case.test_patch:
        await workspace.apply_patch(case.test_patch)
    for path, text in case.hidden_tests.items():
        with suppress(NotFound):
            await workspace.delete(path)  # a link would lead elsewhere
        await workspace.write(path, text.encode())


async def grade(
    workspace: Workspace,
    jail: Jail,
    case: EvalCase,
    runner: Runner,
    first: int,
    *,
    tests: CaseTests = DEFAULT_TESTS,
    clean: Callable[[str], str] = str,
) -> Grade:
    """Run the hidden tests. The jail must be new, without processes of the agent.

    `clean` removes secrets from their output, before it is cut.
    """
    try:
        await place_tests(workspace, case, first)
    except (BadRequest, Denied) as error:
        return Grade(False, clean(f"The hidden tests cannot be written: {error}"))
    reports: list[dict[str, Any]] = []
    said = ""
    for names in _batches(case.must_pass):
        words = with_words(runner, names)
        report = await run_tests(
            jail,
            words,
            timeout_s=case.test_timeout_s or tests.timeout_s,
            memory_bytes=tests.memory_bytes,
            clean=clean,
        )
        reports.append(report.data())
        said = report.text()
        if not report.ok:
            return Grade(False, "\n".join(said.splitlines()[:MAX_REASON_LINES]), tuple(reports))
        if missing := _missing(report, names):
            return Grade(False, f"{missing} of the tests that must pass did not run.", tuple(reports))
    return Grade(True, said.splitlines()[0], tuple(reports))


def _patched(case: EvalCase) -> list[str]:
    return [operation.path for operation in read_operations(case.test_patch)] if case.test_patch else []


def _batches(names: Sequence[str]) -> list[Sequence[str]]:
    distinct = list(dict.fromkeys(names))
    return [distinct[at : at + MAX_NAMES] for at in range(0, len(distinct), MAX_NAMES)] or [()]


def _missing(report: Report, names: Sequence[str]) -> int:
    """The number of named tests that did not pass; a skipped test has not passed."""
    return max(0, len(names) - report.counts.passed) if report.counts else 0
