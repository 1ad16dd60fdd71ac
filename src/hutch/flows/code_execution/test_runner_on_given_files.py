"""Runs test files with the test runner of their language, and reads the result of each test."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace

from hutch.agent.repository_testing.python_runners import python_runner
from hutch.agent.repository_testing.runner_definition import REPORT, Runner
from hutch.agent.repository_testing.test_results import Case, Report
from hutch.agent.repository_testing.test_run_in_jail import run_tests
from hutch.domain.given_code_test_case import Language
from hutch.domain.user_given_starter_files import StarterFiles
from hutch.flows.code_execution.case_programs import NODE_OPTIONS
from hutch.flows.code_execution.execution_limits_and_results import (
    CaseResult,
    Execution,
    ExecutionLimits,
    Status,
)
from hutch.flows.code_execution.language_toolchains import LanguageToolchain
from hutch.jail.interface import Jail

TEST_FILES: dict[Language, re.Pattern[str]] = {
    "python": re.compile(r"(^|/)(test_\w+|\w+_test)\.py$"),
    "javascript": re.compile(r"\.test\.[cm]?js$"),
    "typescript": re.compile(r"\.test\.m?ts$"),
    "go": re.compile(r"_test\.go$"),
}
EXAMPLES: dict[Language, str] = {
    "python": "test_solution.py",
    "javascript": "solution.test.js",
    "typescript": "solution.test.ts",
    "go": "solution_test.go",
}
# In one process: with one for each file, a file that ends its process with 0 would have passed as a whole.
# The report goes to a file, so that what the code prints is not taken for a part of it.
NODE_TEST = (
    *("--test", "--experimental-test-isolation=none"),
    *("--test-reporter=tap", f"--test-reporter-destination={REPORT}"),
)
HAS_PLAN = ("grep", "-qsE", r"^1\.\.[0-9]+$", REPORT)  # Node writes it when all tests have ended
ENDED_EARLY = "The code has ended the process before all tests were done."
NODE_LANGUAGES = ("javascript", "typescript")
STATUSES: dict[str, Status] = {"passed": "passed", "failed": "failed", "skipped": "skipped"}


async def run_test_files(
    jail: Jail,
    toolchain: LanguageToolchain,
    language: Language,
    files: StarterFiles,
    limits: ExecutionLimits,
    tests: Sequence[str] = (),
) -> Execution:
    """Run the test files `tests`, or all, in a jail whose workspace holds the files."""
    names = list(tests) or [path for path in sorted(files) if TEST_FILES[language].search(path)]
    if not names:
        problem = f"There is no test file. Add one, such as {EXAMPLES[language]}."
        return Execution(language=language, problem=problem)
    report = await run_tests(
        jail,
        _runner(toolchain, language, names),
        timeout_s=limits.timeout_s,
        memory_bytes=limits.memory_bytes,
    )
    ran = _execution(language, report)
    if ran.ok and language in NODE_LANGUAGES and (await jail.run(HAS_PLAN)).exit_code != 0:
        return replace(ran, problem=ENDED_EARLY)
    return ran


def _runner(toolchain: LanguageToolchain, language: Language, names: Sequence[str]) -> Runner:
    if language == "python":
        own = python_runner(lambda path: b"unittest" if path in names else None, names)
        assert own is not None and own.name == "unittest"
        _, *others = own.argv
        only = tuple(f"--only-file={name}" for name in names)
        return Runner(
            "unittest",
            (toolchain.program, "-B", *others, *own.all_tests, *only),
            "junit",
            REPORT,
            "python3 -m unittest",
        )
    if language == "go":
        folders = sorted({f"./{name.rpartition('/')[0]}" for name in names})
        words = (toolchain.program, "test", "-json", "-vet=off", "-count=1", *folders)
        return Runner("go test", words, "go", None, "go test")
    words = (toolchain.program, *NODE_OPTIONS, *NODE_TEST, *names)
    return Runner("node:test", words, "tap", REPORT, "node --test")


def _execution(language: Language, report: Report) -> Execution:
    cases = tuple(_result(case) for case in report.counts.cases) if report.counts else ()
    problem = ""
    if not report.ok and not any(case.status != "passed" for case in cases):
        problem = report.reason or report.text().splitlines()[0]
    return Execution(
        language=language,
        cases=cases,
        problem=problem,
        stdout=_printed_by_go(report.output) if language == "go" else report.output,
        time_s=report.duration_s,
    )


def _printed_by_go(output: str) -> str:
    """The text in the output of `go test -json`."""
    printed = []
    for line in output.splitlines(keepends=True):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            printed.append(line)
            continue
        if isinstance(entry, dict) and isinstance(entry.get("Output"), str):
            printed.append(entry["Output"])
    return "".join(printed)


def _result(case: Case) -> CaseResult:
    return CaseResult(
        name=case.name,
        status=STATUSES.get(case.outcome, "error"),
        message=case.message,
        time_s=case.duration_s,
    )
