"""Synthetic candidates from seeds, and how a policy reacts to them.

Each kind draws its own habits first, then works until the question's time is over. Tests are named by number.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from hutch.flows.interviews.help_level_proposals import LevelProposal, LevelProposals
from hutch.flows.interviews.struggle_and_help_thresholds import AdaptivePolicy
from hutch.flows.interviews.struggle_score import ObservedEdit, ObservedTests
from tests.flows.candidate_traces import DURATION_S, Candidate, TestRun, Typing

TICK_S = 10.0
TESTS = 8

Work = Iterator[TestRun | Typing]
Habit = Callable[[random.Random], Work]


def _tests(at_s: float, passing: int) -> TestRun:
    names = [str(number) for number in range(TESTS)]
    return TestRun(at_s, frozenset(names[:passing]), frozenset(names[passing:]))


def _typing(rng: random.Random, from_s: float, to_s: float, deleted_share: float) -> Work:
    """Edits in bursts."""
    at_s = from_s
    while (at_s := at_s + rng.uniform(3, 15)) < to_s:
        added = rng.randrange(5, 60)
        yield Typing(at_s, added, round(added * deleted_share * rng.uniform(0.5, 1.5)))


def _runs(
    rng: random.Random,
    gap_s: Callable[[], float],
    deleted_share: float,
    next_: Callable[[int], int],
    from_s: float = 0.0,
) -> Work:
    """Test runs with typing between them; `next_` gives the number of passing tests of each run."""
    at_s, passing = from_s, 0
    while True:
        run_s = at_s + gap_s()
        if run_s > DURATION_S:
            return
        yield from _typing(rng, at_s, run_s, deleted_share)
        passing = next_(passing)
        yield _tests(run_s, passing)
        at_s = run_s


def stuck(rng: random.Random, from_s: float = 0.0, solved: int = 0) -> Work:
    """Tries again and again; the same tests fail, sometimes the code does not even start."""
    gap_s, passing = rng.uniform(30, 90), solved or rng.choice([0, 0, 1, 3])
    ceiling = lambda _: 0 if rng.random() < 0.2 else passing  # noqa: E731
    share = rng.uniform(0.05, 1.0)
    return _runs(rng, lambda: min(100, gap_s * rng.uniform(0.6, 1.3)), share, ceiling, from_s)


def stuck_later(rng: random.Random, from_s: float, solved: int) -> Work:
    """Passes a test every minute or two, then is stuck with the next."""
    for number in range(solved):
        at_s = from_s * number / solved
        run_s = from_s * (number + 1) / solved
        yield from _typing(rng, at_s, run_s, 0.2)
        yield _tests(run_s, number + 1)
    yield from stuck(rng, from_s, solved)


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


def candidates() -> list[Candidate]:
    """100 of them: 40 who are stuck, 30 who think slowly, 30 whose luck changes."""
    found = []
    for seed in range(40):
        rng = random.Random(seed)
        if seed % 4 == 3:
            solved, from_s = rng.randrange(1, 5), rng.uniform(120, 900)
            work = stuck_later(rng, from_s, solved)
        else:
            from_s = 0.0 if seed % 4 else rng.uniform(60, 400)
            work = stuck(rng, from_s)
        found.append(Candidate(f"stuck {seed}", "stuck", list(work), from_s))
    for seed in range(30):
        found.append(Candidate(f"slow {seed}", "slow_thinker", list(slow_thinker(random.Random(seed)))))
        found.append(Candidate(f"noisy {seed}", "noisy", list(noisy(random.Random(seed)))))
    return found


@dataclass
class Outcome:
    """The changes of level that a policy proposed, all of them accepted."""

    proposals: list[LevelProposal] = field(default_factory=list)

    def raised_within(self, from_s: float, for_s: float) -> bool:
        """True if the first raise comes in this time."""
        raised_s = [each.at_s for each in self.proposals if each.direction == "up"]
        return bool(raised_s) and from_s <= raised_s[0] <= from_s + for_s


def interview(policy: AdaptivePolicy, work: Sequence[TestRun | Typing]) -> Outcome:
    """One question with this candidate, who starts with the least help."""
    levels = LevelProposals(policy, policy.levels, policy.levels[0])
    outcome, left = Outcome(), list(work)
    for tick in range(1, int(DURATION_S / TICK_S) + 1):
        now_s = tick * TICK_S
        while left and left[0].at_s <= now_s:
            levels.work.observe(_observed(left.pop(0)))
        if proposal := levels.decide(now_s):
            outcome.proposals.append(proposal)
            levels.set_level(proposal.to_level, now_s)
    return outcome


def _observed(seen: TestRun | Typing) -> ObservedTests | ObservedEdit:
    if isinstance(seen, Typing):
        return ObservedEdit(seen.at_s, seen.added_chars, seen.deleted_chars)
    return ObservedTests(seen.at_s, seen.ok, seen.passed)
