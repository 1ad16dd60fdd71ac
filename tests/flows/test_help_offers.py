"""When help is offered without being asked."""

import pytest

from hutch.flows.interviews.help_offer_conditions import HelpOffers, MeasuredGrowth
from hutch.flows.interviews.struggle_and_help_thresholds import AdaptivePolicy, read_policy
from hutch.flows.interviews.struggle_score import ObservedEdit, ObservedTests, ObservedWork

PASSED = frozenset({"a"})


@pytest.fixture
def policy() -> AdaptivePolicy:
    return read_policy()


@pytest.fixture
def work(policy: AdaptivePolicy) -> ObservedWork:
    return ObservedWork(policy)


@pytest.fixture
def offers(policy: AdaptivePolicy, work: ObservedWork) -> HelpOffers:
    return HelpOffers(policy, work)


def test_three_failed_runs_in_two_minutes_are_answered_with_an_offer(
    offers: HelpOffers, work: ObservedWork
) -> None:
    for at_s in (100.0, 140.0):
        work.observe(ObservedTests(at_s, ok=False, passed=frozenset()))
        assert offers.decide(at_s) is None
    work.observe(ObservedTests(210.0, ok=False, passed=frozenset()))
    offer = offers.decide(210.0)
    assert offer is not None
    assert (offer.kind, offer.reason) == ("repeated_failure", "3 test runs failed within 2 minutes.")
    assert offers.decide(215.0) is None  # not again at once


def test_no_offer_interrupts_typing(offers: HelpOffers, work: ObservedWork) -> None:
    for at_s in (100.0, 120.0, 140.0):
        work.observe(ObservedTests(at_s, ok=False, passed=frozenset()))
    work.observe(ObservedEdit(142.0, 10, 0))
    assert offers.decide(145.0) is None
    assert offers.decide(152.0) is not None


def test_a_dismissed_offer_stays_away_longer(
    offers: HelpOffers, work: ObservedWork, policy: AdaptivePolicy
) -> None:
    for at_s in (100.0, 120.0, 140.0):
        work.observe(ObservedTests(at_s, ok=False, passed=frozenset()))
    assert offers.decide(140.0) is not None
    offers.dismiss("repeated_failure", 150.0)
    again_s = 140.0 + policy.help.cooldown_s + 60
    for number in range(3):
        work.observe(ObservedTests(again_s + number, ok=False, passed=frozenset()))
    assert offers.decide(again_s + 2) is None
    assert (offers.offered, offers.dismissed) == (1, 1)


def test_long_debugging_counts_work_and_not_waiting(offers: HelpOffers, work: ObservedWork) -> None:
    work.observe(ObservedTests(10.0, ok=False, passed=frozenset()))
    assert offers.decide(5000.0) is None  # away since the run
    work.observe(ObservedEdit(700.0, 20, 5))
    offer = offers.decide(720.0)
    assert offer is not None
    assert (offer.kind, offer.reason) == ("long_debugging", "No new test has passed in 12 minutes of work.")


@pytest.mark.parametrize(("times_s", "offered"), [((0.01, 0.04, 0.16), True), ((0.01, 0.021, 0.043), False)])
def test_a_solution_that_works_but_is_slow_gets_an_offer(
    offers: HelpOffers, work: ObservedWork, times_s: tuple[float, ...], offered: bool
) -> None:
    work.observe(ObservedTests(50.0, ok=True, passed=PASSED))
    offers.growth = MeasuredGrowth((1000, 2000, 4000), times_s, 1.6)
    offer = offers.decide(50.0)
    assert (offer is not None) == offered
    if offer:
        assert offer.reason == "Time grows as the input's size to the power of 2.0."


def test_times_too_short_to_measure_say_nothing(offers: HelpOffers, work: ObservedWork) -> None:
    assert MeasuredGrowth((10, 100), (0.0001, 0.004), 1.6).exponent is None
    work.observe(ObservedTests(50.0, ok=True, passed=PASSED))
    offers.growth = MeasuredGrowth((10, 100), (0.0001, 0.004), 1.6)
    assert offers.decide(50.0) is None
