"""What a run may take, and a model that goes in circles."""

import pytest

from hutch.agent.guard import FAILING_STOPPED, FAILING_TOLD, LoopGuard
from hutch.agent.limits import RunLimits, Spent
from hutch.llm.seam import Usage


def test_each_limit_is_told_by_its_name() -> None:
    spent = Spent()
    spent.add(Usage(input=900, output=100), 0.5)
    for limits, words in [
        (RunLimits(turns=1), "1 turns, which is the limit. Give more with --max-turns"),
        (RunLimits(tokens=1000), "1,000 tokens; the limit is 1,000"),
        (RunLimits(cost_usd=0.5), r"It cost $0.50; the limit is $0.50. Give more with --max-cost"),
        (RunLimits(timeout_s=0), "0 seconds, which is the limit. Give more with --timeout"),
    ]:
        assert words in (spent.over(limits) or "")
    assert spent.over(RunLimits(None, None, None, None)) is None


def test_money_is_not_all_when_a_price_is_unknown() -> None:
    spent = Spent()
    spent.add(Usage(output=1), 0.25)
    assert spent.cost == 0.25
    spent.add(Usage(output=1), None)
    assert spent.cost is None


def test_the_tighter_of_two_limits_holds() -> None:
    assert RunLimits(10, None, 2.0, 60).tightened(RunLimits(20, 5, None, 30)) == RunLimits(10, 5, 2.0, 30)


def repeat(guard: LoopGuard, times: int, *, ok: bool = False, text: str = "no") -> list[tuple[bool, bool]]:
    told = [guard.seen("edit_file", '{"a": 1, "b": 2}', text, ok=ok) for _ in range(times)]
    return [(bool(word), stop) for word, stop in told]


def test_the_same_failing_call_is_told_then_stopped() -> None:
    seen = repeat(LoopGuard(), FAILING_STOPPED)
    assert next(place for place, (told, _) in enumerate(seen, 1) if told) == FAILING_TOLD
    assert [stop for _, stop in seen] == [False] * (FAILING_STOPPED - 1) + [True]


def test_the_order_of_arguments_does_not_matter() -> None:
    guard = LoopGuard()
    repeat(guard, FAILING_TOLD - 1)
    assert guard.seen("edit_file", '{"b":2,"a":1}', "no", ok=False)[0]


@pytest.mark.parametrize("times", [50])
def test_honest_repetition_is_not_a_circle(times: int) -> None:
    guard = LoopGuard()
    for turn in range(times):
        assert guard.seen("run_tests", "{}", "1 failed", ok=True) == ("", False)
        guard.changed()  # by an edit
        assert guard.seen("bash_output", '{"id": "bg_1"}', "", ok=True) == ("", False)
        assert guard.seen("bash", '{"command": "make"}', f"error {turn}", ok=False) == ("", False)
