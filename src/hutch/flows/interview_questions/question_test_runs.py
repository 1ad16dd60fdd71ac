"""Runs the tests of a question on somebody's work, in throw-away jails: never where the work is done.

The work is a copy of files. The question's own tests replace files of the same name, so edited tests do not
count. The results of hidden tests are for readers who may know them: messages name inputs and expected
values.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from hutch.domain.errors import BadRequest
from hutch.domain.given_code_test_case import CodeCase
from hutch.domain.interview_question import Growth, LanguageVariant, Question
from hutch.domain.user_given_starter_files import StarterFile, StarterFiles
from hutch.flows.code_execution.case_runs import OnCase
from hutch.flows.code_execution.code_executor import CodeExecutor
from hutch.flows.code_execution.execution_limits_and_results import (
    DEFAULT_LIMITS,
    MAX_TIMEOUT_S,
    CaseResult,
    Execution,
    ExecutionLimits,
)
from hutch.flows.code_execution.test_runner_on_given_files import TEST_FILES
from hutch.flows.interview_questions.question_folder_parser import parse_cases
from hutch.system.lazy_dataclass import dataclass

# Processor time above that of the smallest size: less is noise, and no solution is slow that takes so little.
MIN_MEASURED_S, MIN_SLOW_S = 0.02, 0.1
GROWTH_TIMEOUT_FACTOR = 3  # times the timeout of a case
MAX_CASE_BYTES = 16 * 1024 * 1024
GENERATOR_LIMITS = ExecutionLimits(output_bytes=MAX_CASE_BYTES)


@dataclass(frozen=True, slots=True)
class GrowthMeasurement:
    """How the time of a solution grows with the size of its input."""

    sizes: tuple[int, ...]
    cpu_s: tuple[float, ...]  # of each size that was run, with the start of the program
    exponent: float  # of the time as a power of the size; 0 if too fast to be measured
    max_exponent: float
    problem: str = ""  # why a size was not run to its end: a wrong result, a timeout, another limit
    timed_out: bool = False

    @property
    def is_slow(self) -> bool:
        return self.timed_out or self.exponent > self.max_exponent

    def __str__(self) -> str:
        times = ", ".join(
            f"{size:,}: {took:.2f} s" for size, took in zip(self.sizes, self.cpu_s, strict=False)
        )
        if self.problem:
            return f"{self.problem} ({times})"
        return f"time grows with size^{self.exponent:.2f}, allowed {self.max_exponent:g} ({times})"


async def run_visible_tests(
    executor: CodeExecutor,
    question: Question,
    language: str,
    work: StarterFiles,
    *,
    limits: ExecutionLimits = DEFAULT_LIMITS,
) -> Execution:
    """Run the tests that the candidate sees, with the runner of the language."""
    variant = question.variant(language)
    files = {**work, **variant.visible_tests}
    return await executor.run_tests(
        variant.language, files, limits=limits, tests=_test_files(variant, variant.visible_tests)
    )


async def run_hidden_tests(
    executor: CodeExecutor,
    question: Question,
    language: str,
    work: StarterFiles,
    *,
    limits: ExecutionLimits = DEFAULT_LIMITS,
    on_case: OnCase | None = None,
) -> Execution:
    """Run the hidden cases, then the hidden test files, if there are any. The work never sees an expected
    value of a case; test files share its process, so it can read them. Work that does not compile fails
    each case, as in languages that are not compiled."""
    variant = question.variant(language)
    own_tests = _test_files(variant, {**variant.visible_tests, **work})
    code = {path: file for path, file in work.items() if path not in own_tests}
    found: list[Execution] = []
    if question.hidden_cases:
        ran = await executor.run_cases(
            variant.language,
            code,
            question.hidden_cases,
            limits=limits,
            module=question.module,
            on_case=on_case,
        )
        if ran.problem and not ran.cases:
            failed = (CaseResult(name=each.name, status="error") for each in question.hidden_cases)
            ran = replace(ran, cases=tuple(failed))
        found.append(ran)
    if variant.hidden_tests:
        tests = _test_files(variant, variant.hidden_tests)
        files = {**code, **variant.hidden_tests}
        found.append(await executor.run_tests(variant.language, files, limits=limits, tests=tests))
    return _combine(found)


async def measure_growth(
    executor: CodeExecutor,
    question: Question,
    language: str,
    work: StarterFiles,
    *,
    limits: ExecutionLimits = DEFAULT_LIMITS,
) -> GrowthMeasurement | None:
    """Run the work on growing inputs, to find a solution that works but is slow; None if the question has
    no such inputs. The first size is the base line: the start of the program."""
    if question.growth is None:
        return None
    growth, variant = question.growth, question.variant(language)
    cases = await generate_growth_cases(executor, growth)
    ran = await executor.run_cases(
        variant.language,
        work,
        cases,
        limits=_growth_limits(limits, len(cases)),
        module=question.module,
    )
    done = [case for case in ran.cases if case.passed]
    times = tuple(case.cpu_s for case in ran.cases if case.status != "skipped")
    return GrowthMeasurement(
        growth.sizes,
        times,
        growth_exponent(growth.sizes, [case.cpu_s for case in done]),
        growth.max_exponent,
        ran.first_problem if len(done) < len(cases) else "",
        any(case.status == "timeout" for case in ran.cases),
    )


def _growth_limits(limits: ExecutionLimits, cases: int) -> ExecutionLimits:
    """More time on the clock, which runs on while other programs have the processor: what is measured is
    processor time."""
    case_timeout_s = min(MAX_TIMEOUT_S, GROWTH_TIMEOUT_FACTOR * limits.case_timeout_s)
    timeout_s = min(MAX_TIMEOUT_S, max(limits.timeout_s, case_timeout_s * cases))
    return replace(limits, case_timeout_s=case_timeout_s, timeout_s=timeout_s)


async def generate_growth_cases(executor: CodeExecutor, growth: Growth) -> tuple[CodeCase, ...]:
    """The cases that the question's generator prints, one for each size."""
    requests = [CodeCase(name=f"size {size}", stdin=f"{size}\n") for size in growth.sizes]
    files = {"growth.py": StarterFile(growth.generator.encode())}
    ran = await executor.run_cases("python", files, requests, limits=GENERATOR_LIMITS, module="growth")
    if not ran.ok:
        raise BadRequest(f"growth.py failed: {ran.first_problem}")
    cases = []
    for request, printed in zip(requests, ran.cases, strict=True):
        if printed.is_output_cut:
            raise BadRequest(f"growth.py printed more than {MAX_CASE_BYTES >> 20} MiB for {request.name}.")
        found = parse_cases(f"[{printed.stdout}]".encode(), f"growth.py for {request.name}")
        cases.append(replace(found[0], name=request.name))
    return tuple(cases)


def growth_exponent(sizes: Sequence[int], cpu_s: Sequence[float]) -> float:
    """The slope of log(time) over log(size), of the sizes after the first; 0 if they take no time."""
    points = [
        (math.log(size), math.log(took - cpu_s[0]))
        for size, took in list(zip(sizes, cpu_s, strict=False))[1:]
        if took - cpu_s[0] >= MIN_MEASURED_S
    ]
    if len(points) < 2 or cpu_s[-1] - cpu_s[0] < MIN_SLOW_S:
        return 0.0
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def _test_files(variant: LanguageVariant, files: StarterFiles) -> list[str]:
    from_runner = TEST_FILES[variant.language]
    return [path for path in files if from_runner.search(path)]


def _combine(found: Sequence[Execution]) -> Execution:
    if len(found) == 1:
        return found[0]
    first, second = found
    return Execution(
        language=first.language,
        cases=(*first.cases, *second.cases),
        problem=first.problem or second.problem,
        stdout=first.stdout + second.stdout,
        stderr=first.stderr + second.stderr,
        build_s=first.build_s + second.build_s,
        time_s=first.time_s + second.time_s,
    )
