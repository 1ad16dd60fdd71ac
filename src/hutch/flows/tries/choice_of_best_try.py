"""Which of several results is the best, and why. Pure."""

from collections.abc import Sequence

from hutch.domain.helper_agent_events import TryResult

SMALL_LINES = 400  # changed lines of a result that is clearly good
FINISHED = ("done", "tests_failing")


def is_clearly_good(result: TryResult) -> bool:
    """True if no other try is worth its cost: it is done, something other than its author's word says that it
    is right, nothing speaks against it, and the change is small."""
    has_evidence = result.tests.startswith(tuple("123456789")) or result.checks > 0
    return (
        result.outcome == "done"
        and has_evidence
        and result.checks_passed == result.checks
        and result.review in ("", "approved")
        and result.files > 0
        and result.added + result.deleted <= SMALL_LINES
    )


def is_usable(result: TryResult) -> bool:
    """True if there is something to take over."""
    return result.outcome in FINISHED and result.files > 0


def choose_best(results: Sequence[TryResult]) -> TryResult | None:
    """The best result; of equal ones, the first. None if none is usable."""
    usable = [each for each in results if is_usable(each)]
    return max(usable, key=_rank, default=None)


def _rank(result: TryResult) -> tuple[float, ...]:
    return (
        result.outcome == "done",
        result.checks_passed,
        {"approved": 2, "": 1}.get(result.review, 0),
        result.tests.startswith(tuple("123456789")),  # tests that ran are evidence
        -(result.added + result.deleted),
        -(result.cost_usd or 0.0),
    )


def explain(result: TryResult, best: TryResult | None) -> str:
    """Why a result was chosen or not, compared with the best one."""
    if not is_usable(result):
        if result.outcome in FINISHED:
            return "changed nothing"
        return result.why or result.outcome.replace("_", " ")
    if best is None or result.name == best.name:
        facts = [
            "its tests pass" if result.outcome == "done" else "its tests fail",
            f"{result.checks_passed} of {result.checks} checks pass" if result.checks else "",
            result.review and f"review: {result.review}",
            f"{result.added + result.deleted} changed lines",
        ]
        return "; ".join(each for each in facts if each)
    return next(text for is_so, text in _reasons(result, best) if is_so)


def _reasons(result: TryResult, best: TryResult) -> list[tuple[bool, str]]:
    lines, fewer = result.added + result.deleted, best.added + best.deleted
    return [
        (result.outcome != best.outcome, "its tests fail"),
        (
            result.checks_passed < best.checks_passed,
            f"only {result.checks_passed} of {result.checks} checks pass",
        ),
        (result.review != best.review, f"review: {result.review or 'none'}"),
        (bool(best.tests) and not result.tests, "no tests ran"),
        (lines > fewer, f"{lines} changed lines instead of {fewer}"),
        ((result.cost_usd or 0) > (best.cost_usd or 0), "as good, but it cost more"),
        (True, "as good, but later"),
    ]
