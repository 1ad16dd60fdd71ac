"""Pass rates: intervals contain the true rate as often as they say, and tasks count rather than attempts."""

import random

import pytest

from hutch.flows.evaluation.pass_rates import (
    PassRate,
    TaskAttempts,
    pass_rate,
    percent,
    rate_difference,
    wilson_interval,
)


def test_the_interval_is_that_of_wilson() -> None:
    # The values of the table in Brown, Cai and DasGupta, and of `binom.confint(…, methods="wilson")`.
    assert wilson_interval(0.5, 10) == pytest.approx((0.5, 0.23659, 0.76341), abs=1e-4)
    assert wilson_interval(1.0, 4) == pytest.approx((1.0, 0.51011, 1.0), abs=1e-4)
    assert wilson_interval(0.0, 10) == pytest.approx((0.0, 0.0, 0.27753), abs=1e-4)


def test_attempts_that_agree_count_as_one() -> None:
    agreeing = pass_rate([TaskAttempts(10, 10)] * 5 + [TaskAttempts(0, 10)] * 5)
    once = pass_rate([TaskAttempts(1, 1)] * 5 + [TaskAttempts(0, 1)] * 5)
    mixed = pass_rate([TaskAttempts(5, 10)] * 10)
    assert (agreeing.low, agreeing.high) == pytest.approx((once.low, once.high), abs=0.02)
    assert mixed == wilson_interval(0.5, 100)


@pytest.mark.parametrize("tasks", [[], [TaskAttempts(0, 0)]])
def test_nothing_is_known_without_attempts(tasks: list[TaskAttempts]) -> None:
    assert pass_rate(tasks) == PassRate(0.0, 0.0, 1.0)


def test_the_true_rate_is_in_the_interval_as_often_as_it_says() -> None:
    chance, rounds, inside = random.Random(7), 2_000, 0
    for _ in range(rounds):  # tasks of very different difficulty, whose mean rate is 0.6
        difficulty = [chance.betavariate(0.9, 0.6) for _ in range(20)]
        tasks = [TaskAttempts(sum(chance.random() < each for _ in range(5)), 5) for each in difficulty]
        low, high = pass_rate(tasks)[1:]
        inside += low <= 0.6 <= high
    assert 0.92 <= inside / rounds <= 0.99


def test_a_difference_of_few_tasks_is_not_certain() -> None:
    four = pass_rate([TaskAttempts(1, 1)] * 4)
    three = pass_rate([TaskAttempts(1, 1)] * 3 + [TaskAttempts(0, 1)])
    difference = rate_difference(four, three)
    assert difference.rate == 0.25 and difference.low < 0 < difference.high
    many = rate_difference(wilson_interval(0.9, 200), wilson_interval(0.5, 200))
    assert many.low > 0.3
    assert percent(four) == "100 % (51 to 100)"
