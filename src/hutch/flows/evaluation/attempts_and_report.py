"""The attempts at the cases of a set, their results, and the report of them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from hutch.flows.evaluation.case_definition import EvalCase
from hutch.flows.evaluation.pass_rates import PassRate, TaskAttempts, pass_rate, rate_difference
from hutch.system.lazy_dataclass import dataclass

FIELDS = ("passed", "outcome", "reason", "turns", "input_tokens", "cached_tokens", "output_tokens")
MORE_FIELDS = ("cost_usd", "duration_s", "model", "session_id", "tests", "patch", "code")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One go at a case. `label` is for people."""

    case: EvalCase
    model: str  # for all tasks; empty: that of the case, or the default one
    number: int  # from 1
    label: str

    @property
    def key(self) -> tuple[str, str, int]:
        return self.case.name, self.model, self.number


@dataclass(frozen=True, slots=True)
class Result:
    """How one attempt ended."""

    attempt: Attempt
    passed: bool
    outcome: str  # of the run; `error` when there was none
    reason: str
    turns: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None  # None: unknown
    duration_s: float = 0.0
    model: str = ""
    session_id: str = ""
    tests: tuple[dict[str, Any], ...] = ()
    patch: str = ""
    code: str = ""  # of the error that ended the run, such as `denied` for a rejected key

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


def plan_attempts(cases: Sequence[EvalCase], models: Sequence[str], repeat: int) -> list[Attempt]:
    """All attempts: at each task with each model, as often as asked."""
    names = list(dict.fromkeys(models)) or [""]

    def label(case: EvalCase, model: str, number: int) -> str:
        return " ".join(
            [
                case.name,
                *([model] if len(names) > 1 else []),
                *([f"({number} of {repeat})"] if repeat > 1 else []),
            ]
        )

    return [
        Attempt(case, model, number, label(case, model, number))
        for number in range(1, repeat + 1)
        for case in cases
        for model in names
    ]


def rates_by_model(attempts: Sequence[Attempt], results: Sequence[Result]) -> dict[str, PassRate]:
    """The pass rate of each model over the tasks that were tried with it."""
    found: dict[str, dict[str, list[bool]]] = {each.model: {} for each in attempts}
    for result in results:
        found[result.attempt.model].setdefault(result.attempt.case.name, []).append(result.passed)
    return {
        model: pass_rate([TaskAttempts(sum(passed), len(passed)) for passed in tasks.values()])
        for model, tasks in found.items()
    }


def build_report(
    source: str, began: datetime, attempts: Sequence[Attempt], results: Sequence[Result]
) -> dict[str, Any]:
    """All results, for programs; in the order of the attempts."""
    by_key = {result.attempt.key: result for result in results}
    known = [result.cost_usd for result in results if result.cost_usd is not None]
    rates = rates_by_model(attempts, results)
    first = next(iter(rates), "")
    return {
        "version": 1,
        "source": source,
        "began": began.isoformat(),
        "written": datetime.now(UTC).isoformat(),
        "passed": sum(result.passed for result in results),
        "failed": sum(not result.passed for result in results),
        "not_run": [each.label for each in attempts if each.key not in by_key],
        "turns": sum(result.turns for result in results),
        "tokens": sum(result.tokens for result in results),
        "cost_usd": sum(known) if len(known) == len(results) else None,
        "pass_rates": [
            {"model": model, **rate._asdict()}
            | ({} if model == first else {"minus_first": rate_difference(rate, rates[first])._asdict()})
            for model, rate in rates.items()
        ],
        "tasks": [_as_row(by_key[each.key]) for each in attempts if each.key in by_key],
    }


def _as_row(result: Result) -> dict[str, Any]:
    attempt = result.attempt
    names = {"name": attempt.case.name, "attempt": attempt.number, "asked_model": attempt.model}
    return names | {name: getattr(result, name) for name in (*FIELDS, *MORE_FIELDS)}
