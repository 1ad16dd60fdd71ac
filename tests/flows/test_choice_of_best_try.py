"""The best of several results, with the reason."""

from typing import Any

import pytest

from hutch.domain.helper_agent_events import TryResult
from hutch.flows.tries.choice_of_best_try import SMALL_LINES, choose_best, explain, is_clearly_good


def result(name: str = "h1", **more: Any) -> TryResult:
    given = {"outcome": "done", "tests": "3 passed, 0 failed", "files": 1, "added": 10, "deleted": 0}
    return TryResult(name=name, helper="ses_1", **{**given, **more})


@pytest.mark.parametrize(
    ("better", "worse", "why"),
    [
        ({}, {"outcome": "tests_failing"}, "its tests fail"),
        ({"checks": 2, "checks_passed": 2}, {"checks": 2, "checks_passed": 1}, "only 1 of 2 checks pass"),
        ({"review": "approved"}, {"review": "rejected"}, "review: rejected"),
        ({}, {"tests": ""}, "no tests ran"),
        ({}, {"added": 11}, "11 changed lines instead of 10"),
        ({"cost_usd": 0.1}, {"cost_usd": 0.2}, "as good, but it cost more"),
        ({}, {}, "as good, but later"),
        ({"added": 500}, {"files": 0}, "changed nothing"),
        ({"outcome": "tests_failing"}, {"outcome": "failed", "why": "no key"}, "no key"),
    ],
)
def test_the_best_result_is_chosen_and_the_others_say_why_not(
    better: dict[str, Any], worse: dict[str, Any], why: str
) -> None:
    first, second = result("good", **better), result("bad", **worse)
    assert choose_best([first, second]) is first
    assert explain(second, first) == why
    if why != "as good, but later":
        assert choose_best([second, first]) is first


def test_no_result_is_the_best_if_none_is_usable() -> None:
    assert choose_best([result(files=0), result(outcome="cancelled")]) is None


@pytest.mark.parametrize(
    ("given", "is_good"),
    [
        ({}, True),
        ({"tests": "", "checks": 1, "checks_passed": 1}, True),
        ({"tests": ""}, False),  # nothing but the author's word
        ({"tests": "0 passed, 0 failed"}, False),
        ({"checks": 2, "checks_passed": 1}, False),
        ({"review": "rejected"}, False),
        ({"added": SMALL_LINES + 1}, False),
        ({"outcome": "tests_failing"}, False),
        ({"files": 0}, False),
    ],
)
def test_a_result_is_clearly_good_only_with_evidence_and_if_it_is_small(
    given: dict[str, Any], is_good: bool
) -> None:
    assert is_clearly_good(result(**given)) is is_good
