"""Synthetic candidates: what they run and type in one question, from a seed, and how a policy reacts.

Each kind draws its own habits first, then works for `DURATION_S`. Tests are named by number.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hutch.flows.interviews.help_level_proposals import LevelProposal, LevelProposals
from hutch.flows.interviews.struggle_and_help_thresholds import AdaptivePolicy
from hutch.flows.interviews.struggle_score import ObservedEdit, ObservedTests

DURATION_S = 2700.0
TICK_S = 10.0
TESTS = 8

Work = Iterator[ObservedTests | ObservedEdit]
Candidate = Callable[[random.Random], Work]


def _tests(at_s: float, passing: int) -> ObservedTests:
    names = frozenset(str(number) for number in range(passing))
    return ObservedTests(at_s, ok=passing == TESTS, passed=names)


def _typing(rng: random.Random, from_s: float, to_s: float, deleted_share: float) -> Work:
    """Edits in bursts."""
    at_s = from_s
    while (at_s := at_s + rng.uniform(3, 15)) < to_s:
        added = rng.randrange(5, 60)
        yield ObservedEdit(at_s, added, round(added * deleted_share * rng.uniform(0.5, 1.5)))


def _runs(
    rng: random.Random, gap_s: Callable[[], float], deleted_share: float, next_: Callable[[int], int]
) -> Work:
    """Test runs with typing between them; `next_` gives the number of passing tests of each run."""
    at_s, passing = 0.0, 0
    while True:
        run_s = at_s + gap_s()
        if run_s > DURATION_S:
            return
        yield from _typing(rng, at_s, run_s, deleted_share)
        passing = next_(passing)
        yield _tests(run_s, passing)
        at_s = run_s


def stuck(rng: random.Random) -> Work:
    """Tries again and again; the same tests fail, sometimes the code does not even start."""
    gap_s, passing = rng.uniform(35, 80), rng.choice([0, 0, 1, 3])
    ceiling = lambda _: 0 if rng.random() < 0.2 else passing  # noqa: E731
    return _runs(rng, lambda: gap_s * rng.uniform(0.6, 1.3), rng.uniform(0.4, 1.0), ceiling)


def slow_thinker(rng: random.Random) -> Work:
    """Thinks for minutes between runs, and most runs bring a test more."""
    gap_s = rng.uniform(200, 420)
    return _runs(
        rng,
        lambda: gap_s * rng.uniform(0.5, 1.5),
        rng.uniform(0.05, 0.4),
        lambda passing: min(TESTS, passing + (rng.random() < 0.65)),
    )


def idle(rng: random.Random) -> Work:
    """Reads, and does nothing else; perhaps one failing run at the start."""
    if rng.random() < 0.5:
        yield _tests(rng.uniform(20, 200), 0)


def steady(rng: random.Random) -> Work:
    """Runs often, and passes a test more every second or third time."""
    gap_s = rng.uniform(45, 120)
    return _runs(
        rng,
        lambda: gap_s * rng.uniform(0.5, 1.5),
        rng.uniform(0.1, 0.5),
        lambda passing: min(TESTS, passing + (rng.random() < 0.55)),
    )


def noisy(rng: random.Random) -> Work:
    """Changes between quick progress and long series of failures."""
    lucky = [rng.random() < 0.5]

    def next_passing(passing: int) -> int:
        if rng.random() < 0.15:
            lucky[0] = not lucky[0]
        if lucky[0]:
            return min(TESTS, passing + rng.randrange(2))
        return max(0, passing - rng.randrange(2))

    return _runs(rng, lambda: rng.uniform(20, 90), rng.uniform(0.2, 1.0), next_passing)


@dataclass
class Outcome:
    """The changes of level that a policy proposed, all of them accepted."""

    proposals: list[LevelProposal] = field(default_factory=list)

    @property
    def first_raise_s(self) -> float:
        return next((each.at_s for each in self.proposals if each.direction == "up"), float("inf"))


def interview(policy: AdaptivePolicy, candidate: Candidate, seed: int) -> Outcome:
    """One question with this candidate, who starts with the least help."""
    levels = LevelProposals(policy, policy.levels, policy.levels[0])
    outcome, work = Outcome(), list(candidate(random.Random(seed)))
    for tick in range(1, int(DURATION_S / TICK_S) + 1):
        now_s = tick * TICK_S
        while work and work[0].at_s <= now_s:
            levels.work.observe(work.pop(0))
        if proposal := levels.decide(now_s):
            outcome.proposals.append(proposal)
            levels.set_level(proposal.to_level, now_s)
    return outcome
