"""Given code runs against given cases, in every language, and reports what happened."""

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, LimitReached
from hutch.domain.given_code_test_case import LANGUAGES, CodeCase, Expected, Language
from hutch.flows.code_execution.code_executor import MAX_OF_ONE_USER
from hutch.flows.code_execution.execution_limits_and_results import ExecutionLimits
from tests.deadline import DEADLINE_S
from tests.flows.code_execution.shared_executor import CASES, SOURCES, as_files, executor, python_case

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "language", [pytest.param(each, marks=pytest.mark.long if each == "go" else ()) for each in LANGUAGES]
)
async def test_calls_errors_and_objects_work_in_every_language(language: Language) -> None:
    ran = await executor().run_cases(language, as_files(SOURCES[language]), CASES)
    assert ran.problem == "", ran.stderr
    statuses = {case.name: case.status for case in ran.cases}
    assert statuses == {"right": "passed", "raises": "passed", "wrong": "failed", "object": "passed"}
    right, raised, wrong, made = ran.cases
    assert (right.actual, right.stdout, made.actual) == (4, "called\n", [[2], [5]])
    assert "negative" in raised.stderr
    assert wrong.message == "Expected 5, but got 4."
    assert all(case.time_s > 0 and case.cpu_s > 0 and case.memory_bytes > 2**20 for case in ran.cases)
    assert (ran.ok, ran.passed, ran.total) == (False, 3, 4)


@pytest.mark.parametrize(
    ("language", "files"),
    [
        ("python", {"solution.py": "import sys\nprint(sum(int(line) for line in sys.stdin))\n"}),
        (
            "typescript",
            {
                "solution.ts": "import fs from 'node:fs';\nconst text: string = fs.readFileSync(0, 'utf8');\n"
                "const numbers: number[] = text.trim().split('\\n').map(Number);\n"
                "console.log(numbers.reduce((sum, each) => sum + each, 0));\n"
            },
        ),
        (
            "go",
            {
                "main.go": 'package main\n\nimport "fmt"\n\nfunc main() {\n\tsum, n := 0, 0\n'
                "\tfor {\n\t\tif _, err := fmt.Scan(&n); err != nil {\n\t\t\tbreak\n\t\t}\n"
                "\t\tsum += n\n\t}\n\tfmt.Println(sum)\n}\n"
            },
        ),
    ],
)
async def test_a_program_reads_its_input(language: Language, files: dict[str, str]) -> None:
    cases = [
        CodeCase(name="right", stdin="1\n2\n", stdout="3"),
        CodeCase(name="wrong", stdin="1\n2\n", stdout="4\n"),
    ]
    ran = await executor().run_cases(language, as_files(files), cases)
    assert [case.status for case in ran.cases] == ["passed", "failed"], ran
    assert ran.cases[1].message == 'Line 1: expected "4", but got "3".'


async def test_code_that_does_not_compile_is_a_result() -> None:
    files = as_files({"solution.go": "package solution\n\nfunc DoubleIt(n int) int { return n +\n"})
    ran = await executor().run_cases("go", files, CASES[:1])
    assert not ran.ok and ran.cases == ()
    assert ran.problem.startswith("The code does not compile: ./solution.go:4:1: syntax error")


async def test_an_endless_loop_ends_with_its_own_case_only() -> None:
    source = "def run(n):\n    while n:\n        pass\n    return 1\n"
    files, _ = python_case(source)
    cases = [
        CodeCase(name="endless", call="run", args=(1,), expected=Expected(value=1), timeout_s=1),
        CodeCase(name="short", call="run", args=(0,), expected=Expected(value=1)),
    ]
    limits = ExecutionLimits(case_timeout_s=DEADLINE_S, timeout_s=DEADLINE_S)  # Python needs time to start
    ran = await executor().run_cases("python", files, cases, limits=limits)
    assert [case.status for case in ran.cases] == ["timeout", "passed"], ran


async def test_all_cases_share_one_time_limit() -> None:
    files, _ = python_case("def run():\n    while True:\n        pass\n")
    cases = [CodeCase(name=str(number), call="run") for number in range(4)]
    limits = ExecutionLimits(case_timeout_s=1, timeout_s=1)
    ran = await executor().run_cases("python", files, cases, limits=limits)
    assert [case.status for case in ran.cases] == ["timeout", "skipped", "skipped", "skipped"]
    assert ran.cases[1].message == "Not run: the 1 s of all cases together are used up."


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("return {1, 2}", "error", "cannot be written as JSON"),
        ("return float('nan')", "error", "cannot be written as JSON"),
        ("import os; os._exit(3)", "error", "without a result, with exit code 3"),
        ("import os; os.kill(os.getpid(), 11)", "error", "without a result, with signal 11"),
        ("import sys; sys.exit(0)", "error", "SystemExit"),
        ("return undefined_name", "error", "NameError"),
        ("return True", "failed", "Expected 1, but got true."),
        ("return 1.0", "passed", ""),
        ("import os; os.close(1); return 1", "passed", ""),
        ("async def later():\n        return 1\n    return later()", "passed", ""),
        ("import threading; threading.Thread(target=threading.Event().wait).start(); return 1", "passed", ""),
    ],
)
async def test_every_way_to_end_is_reported(body: str, status: str, words: str) -> None:
    files, cases = python_case(f"def run():\n    {body}\n", expected=Expected(value=1))
    ran = await executor().run_cases("python", files, cases)
    assert ran.cases[0].status == status, ran
    assert words in ran.cases[0].message


async def test_a_result_larger_than_64_bits_keeps_its_digits() -> None:
    files, cases = python_case("def run():\n    return 2 ** 200\n", expected=Expected(value=2**200))
    assert (await executor().run_cases("python", files, cases)).ok


@pytest.mark.parametrize(
    ("files", "cases", "words"),
    [
        ({"other.py": "", "more.py": ""}, CASES[:1], "There is no file solution.py"),
        ({"hutch_case_driver/driver.py": ""}, CASES[:1], "is reserved"),
        ({"../solution.py": ""}, CASES[:1], "cannot be written"),
        ({"solution.py": ""}, [], "no cases"),
    ],
)
async def test_a_request_that_cannot_be_run_is_refused(
    files: dict[str, str], cases: list[CodeCase], words: str
) -> None:
    with pytest.raises(BadRequest, match=words):
        await executor().run_cases("python", as_files(files), cases)


async def test_limits_must_make_sense() -> None:
    for wrong in ({"timeout_s": 0}, {"memory_bytes": 1}, {"output_bytes": 0}):
        with pytest.raises(BadRequest):
            ExecutionLimits(**wrong)


async def test_a_user_has_a_few_executions_at_a_time_and_others_are_served() -> None:
    shared = executor(concurrency=1)
    await shared.toolchains()  # so that all of the following ask for a slot in the same moment
    files, cases = python_case("def run():\n    return 1\n", expected=Expected(value=1))
    running = [
        asyncio.ensure_future(shared.run_cases("python", files, cases, user="ann"))
        for _ in range(MAX_OF_ONE_USER + 1)
    ]
    done = await asyncio.gather(*running, return_exceptions=True)
    refused = [each for each in done if isinstance(each, LimitReached)]
    assert len(refused) == 1 and "You have 8 executions" in str(refused[0])
    assert (await shared.run_cases("python", files, cases, user="ann")).ok  # nothing stays counted


async def test_a_cancelled_execution_leaves_nothing() -> None:
    shared = executor(concurrency=1)
    files, _ = python_case("import time\n\n\ndef run():\n    time.sleep(600)\n\n\ndef first():\n    pass\n")
    cases = [CodeCase(name=str(number), call="run") for number in range(3)]
    limits = ExecutionLimits(timeout_s=600, case_timeout_s=600)
    began = asyncio.Event()
    cases = [CodeCase(name="first", call="first"), *cases]
    task = asyncio.ensure_future(
        shared.run_cases("python", files, cases, limits=limits, on_case=lambda _: began.set())
    )
    async with asyncio.timeout(DEADLINE_S):
        await began.wait()
    assert _own_directories()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert _own_directories() == []
    files, cases = python_case("def run():\n    return 1\n", expected=Expected(value=1))
    assert (await shared.run_cases("python", files, cases)).ok  # the slot is free again


def _own_directories() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"hutch-execution-{os.getpid()}.*"))
