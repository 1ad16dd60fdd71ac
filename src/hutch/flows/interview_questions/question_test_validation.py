"""Checks that the tests of a question tell right from wrong, in every language.

The reference solution must pass, every wrong solution must be found, and the starter must not pass.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from hutch.domain.errors import HutchError
from hutch.domain.given_code_test_case import LANGUAGE_NAMES, Language
from hutch.domain.interview_question import LanguageVariant, Question, is_slow_solution
from hutch.domain.user_given_starter_files import StarterFile, StarterFiles
from hutch.flows.code_execution.code_executor import CodeExecutor
from hutch.flows.code_execution.execution_limits_and_results import DEFAULT_LIMITS, Execution, ExecutionLimits
from hutch.flows.interview_questions.question_test_runs import (
    GrowthMeasurement,
    measure_growth,
    run_hidden_tests,
    run_visible_tests,
)
from hutch.system.lazy_dataclass import dataclass

MAX_REASON_CHARS = 300
MIN_WRONG_SOLUTIONS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result for one solution in one language."""

    question: str
    language: Language
    subject: str  # solution, starter, or wrong/NAME
    ok: bool
    message: str  # why it is not ok; or which test found a wrong solution

    def __str__(self) -> str:
        return f"{self.question} {LANGUAGE_NAMES[self.language]} {self.subject}: {self.message}"


OnFinding = Callable[[Finding], None]


async def check_question(
    executor: CodeExecutor,
    question: Question,
    *,
    languages: Sequence[Language] | None = None,
    limits: ExecutionLimits = DEFAULT_LIMITS,
    with_growth: bool = True,
    on_finding: OnFinding | None = None,
) -> list[Finding]:
    """Check a question in these languages, or all that it has. The executor bounds how many run at once.
    Without growth, which takes most of the time, slow solutions are left out."""
    checks: list[Awaitable[Finding]] = []
    for language in languages or question.languages:
        variant = question.variant(language)
        checker = _Checker(executor, question, variant, limits, with_growth, on_finding)
        checks.append(checker.check("solution", {**variant.starter, **variant.solution}))
        checks.append(checker.check("starter", dict(variant.starter)))
        for name, files in variant.wrong_solutions.items():
            if not with_growth and is_slow_solution(name):
                continue
            checks.append(checker.check(f"wrong/{name}", {**variant.starter, **files}))
        if len(variant.wrong_solutions) < MIN_WRONG_SOLUTIONS:
            checks.append(checker.report_missing())
    return await _all(checks)


async def _all(checks: Sequence[Awaitable[Finding]]) -> list[Finding]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_one(check)) for check in checks]
    return [task.result() for task in tasks]


async def _one(check: Awaitable[Finding]) -> Finding:
    return await check


class _Checker:
    """Checks the solutions of one question in one language."""

    def __init__(
        self,
        executor: CodeExecutor,
        question: Question,
        variant: LanguageVariant,
        limits: ExecutionLimits,
        with_growth: bool,
        on_finding: OnFinding | None,
    ) -> None:
        self._executor, self._question, self._variant = executor, question, variant
        self._limits, self._with_growth, self._on_finding = limits, with_growth, on_finding

    async def check(self, subject: str, work: dict[str, StarterFile]) -> Finding:
        try:
            if subject == "solution":
                ok, message = await self._must_pass(work)
            else:
                ok, message = await self._must_fail(subject, work)
        except HutchError as error:
            ok, message = False, str(error)
        return self._found(subject, ok, message)

    async def report_missing(self) -> Finding:
        folder = f"{self._variant.language}/wrong"
        message = f"there is no wrong solution, so nothing shows that the tests find one. Add {folder}/NAME/."
        return self._found("wrong", False, message)

    async def _must_pass(self, work: StarterFiles) -> tuple[bool, str]:
        if reason := await self._find_failure(work, visible_first=True):
            return False, f"it does not pass: {reason}"
        measured = await self._growth(work)
        if measured is None:
            return True, "passes"
        if measured.problem or measured.is_slow:
            return False, f"it is too slow, or fails on large inputs: {measured}"
        return True, f"passes; {measured}"

    async def _must_fail(self, subject: str, work: StarterFiles) -> tuple[bool, str]:
        if reason := await self._find_failure(work, visible_first=subject == "starter"):
            return True, f"found by {reason}"
        measured = await self._growth(work)
        if measured is not None and (measured.is_slow or measured.problem):
            return True, f"found by its growth: {measured}"
        if subject == "starter":
            return False, "it passes all tests, so there is nothing to do."
        if is_slow_solution(subject.removeprefix("wrong/")) and measured is not None:
            return False, f"it is not found to be slow: {measured}. Use larger sizes."
        return False, "it passes all tests. Add a hidden test that it fails."

    async def _find_failure(self, work: StarterFiles, *, visible_first: bool) -> str:
        """The first test that fails, or nothing."""
        question, language = self._question, self._variant.language
        runs = [("visible test", run_visible_tests), ("hidden test", run_hidden_tests)]
        for kind, run in runs if visible_first else reversed(runs):
            found: Execution = await run(self._executor, question, language, work, limits=self._limits)
            if not found.ok:
                return f"{kind} {found.first_problem}"
        return ""

    async def _growth(self, work: StarterFiles) -> GrowthMeasurement | None:
        if not self._with_growth:
            return None
        return await measure_growth(
            self._executor, self._question, self._variant.language, work, limits=self._limits
        )

    def _found(self, subject: str, ok: bool, message: str) -> Finding:
        text = message.partition("\n")[0]
        finding = Finding(
            question=self._question.id,
            language=self._variant.language,
            subject=subject,
            ok=ok,
            message=text if len(text) <= MAX_REASON_CHARS else f"{text[:MAX_REASON_CHARS]}…",
        )
        if self._on_finding is not None:
            self._on_finding(finding)
        return finding
