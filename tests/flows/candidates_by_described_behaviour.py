"""Candidates made from descriptions of how people work on a task, for figures about the help policy.

The descriptions were written, and committed, before their author opened the
policy's file of thresholds. The author had seen an early sketch of the policy
in a design note, so the traces are independent of the shipped numbers, not
of the idea. They are never tuned: a figure that misses its bar is reported.

How people work here follows what studies of novices report. They run again
soon after a failure, half the time within half a minute, with a long tail;
some stop and stare, some throw away their work and begin again. A person who
thinks slowly writes little and runs rarely, and most runs bring progress.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Literal

from hutch.system.lazy_dataclass import dataclass

Behaviour = Literal["stuck", "slow thinker", "steady", "noisy"]

#: The length of a question, for every candidate.
QUESTION_S = 40 * 60


@dataclass(frozen=True, slots=True)
class Typed:
    at_s: float
    added: int
    deleted: int


@dataclass(frozen=True, slots=True)
class Tried:
    at_s: float
    passed: frozenset[str]
    failures: tuple[tuple[str, str], ...]  # the failed tests, each with its message


Action = Typed | Tried


@dataclass(frozen=True, slots=True)
class Candidate:
    name: str
    behaviour: Behaviour
    actions: tuple[Action, ...]

    def first_failure_s(self) -> float:
        return next(a.at_s for a in self.actions if isinstance(a, Tried) and a.failures)


class Work:
    """A candidate at work: the time, the tests that pass, and everything done so far."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now_s = random.uniform(40, 240)  # reads the statement
        self.tests = [f"case {number}" for number in range(1, random.randint(4, 9))]
        self.passing: set[str] = set()
        self.chars = 0
        self.actions: list[Action] = []

    def think(self, low_s: float, high_s: float) -> None:
        self.now_s += self.random.uniform(low_s, high_s)

    def type_text(self, chars: int) -> None:
        """Text typed at two to five characters a second, with some of it deleted at once."""
        while chars > 0:
            burst = min(chars, self.random.randint(8, 60))
            typos = int(burst * self.random.uniform(0, 0.2))
            self.now_s += (burst + typos) / self.random.uniform(2, 5)
            self.actions.append(Typed(self.now_s, added=burst, deleted=typos))
            self.chars += burst - typos
            chars -= burst

    def delete_text(self, share: float) -> None:
        gone = int(self.chars * share)
        self.now_s += self.random.uniform(1, 6)
        self.actions.append(Typed(self.now_s, added=0, deleted=gone))
        self.chars -= gone

    def run(self, message: str) -> None:
        self.now_s += self.random.uniform(1, 5)
        failed = [test for test in self.tests if test not in self.passing]
        self.actions.append(
            Tried(
                self.now_s,
                passed=frozenset(self.passing),
                failures=tuple((test, f"{message} in {test}") for test in failed),
            )
        )

    def solve(self, count: int) -> None:
        """More tests pass from now on."""
        missing = [test for test in self.tests if test not in self.passing]
        self.passing.update(missing[:count])

    @property
    def solved(self) -> bool:
        return len(self.passing) == len(self.tests)


MESSAGES = (
    "AssertionError: 3 != 4",
    "TypeError: 'NoneType' object is not subscriptable",
    "IndexError: list index out of range",
    "SyntaxError: invalid syntax",
    "NameError: name 'result' is not defined",
    "RecursionError: maximum recursion depth exceeded",
)


def retries_quickly(work: Work) -> None:
    """Changes a few characters, runs again, and gets the same failure."""
    message = work.random.choice(MESSAGES)
    while work.now_s < QUESTION_S:
        if work.random.random() < 0.15:
            message = work.random.choice(MESSAGES)
        work.run(message)
        work.think(3, 25) if work.random.random() < 0.6 else work.think(20, 80)
        work.type_text(work.random.randint(3, 60))


def begins_again(work: Work) -> None:
    """Deletes much of the code and writes it again; it fails in another way each time."""
    while work.now_s < QUESTION_S:
        work.run(work.random.choice(MESSAGES))
        for _ in range(work.random.randint(0, 3)):
            work.think(5, 40)
            work.type_text(work.random.randint(5, 60))
            work.run(work.random.choice(MESSAGES))
        work.think(5, 30)
        work.delete_text(work.random.uniform(0.3, 0.9))
        work.type_text(work.random.randint(80, 250))


def stares(work: Work) -> None:
    """Looks at the failure for a minute or two, changes little, and fails again."""
    message = work.random.choice(MESSAGES)
    while work.now_s < QUESTION_S:
        work.run(message)
        work.think(15, 60) if work.random.random() < 0.4 else work.think(50, 130)
        work.type_text(work.random.randint(5, 80))


def passes_only_the_easy_tests(work: Work) -> None:
    """Has some tests early, and never gets the others."""
    work.solve(work.random.randint(1, max(1, len(work.tests) // 2)))
    retries_quickly(work)


STUCK: tuple[tuple[Callable[[Work], None], int], ...] = (
    (retries_quickly, 40),
    (begins_again, 25),
    (passes_only_the_easy_tests, 20),
    (stares, 15),
)


def stuck(work: Work) -> None:
    work.type_text(work.random.randint(80, 350))
    ways, weights = [way for way, _ in STUCK], [weight for _, weight in STUCK]
    work.random.choices(ways, weights)[0](work)


def slow_thinker(work: Work) -> None:
    """Thinks for minutes, writes a piece, and runs it; a failure is understood before the next run."""
    while work.now_s < QUESTION_S and not work.solved:
        work.think(60, 400)
        work.type_text(work.random.randint(40, 200))
        if work.random.random() < 0.35:
            work.run(work.random.choice(MESSAGES))
            work.think(60, 240)
            work.type_text(work.random.randint(10, 60))
        work.solve(work.random.choice((1, 1, 2)))
        work.run(work.random.choice(MESSAGES))


def steady(work: Work) -> None:
    """Writes and runs in turn; at most two runs pass without a new test."""
    while work.now_s < QUESTION_S and not work.solved:
        work.type_text(work.random.randint(30, 150))
        for _ in range(work.random.choice((0, 0, 1, 1, 2))):
            work.run(work.random.choice(MESSAGES))
            work.think(10, 60)
            work.type_text(work.random.randint(10, 50))
        work.solve(1)
        work.run(work.random.choice(MESSAGES))
        work.think(5, 90)


def noisy(work: Work) -> None:
    """Runs the tests at every thought, rewrites often, loses tests that passed, and gets on in jumps."""
    while work.now_s < QUESTION_S and not work.solved:
        for _ in range(work.random.randint(3, 9)):
            work.think(2, 20)
            work.type_text(work.random.randint(5, 80))
            if work.random.random() < 0.25:
                work.delete_text(work.random.uniform(0.1, 0.6))
            if work.passing and work.random.random() < 0.2:
                work.passing.remove(work.random.choice(sorted(work.passing)))
            work.run(work.random.choice(MESSAGES))
        if work.random.random() < 0.3:
            work.think(60, 240)
        work.solve(work.random.choice((1, 1, 2, 3)))
        work.run(work.random.choice(MESSAGES))


WORK_OF: dict[Behaviour, Callable[[Work], None]] = {
    "stuck": stuck,
    "slow thinker": slow_thinker,
    "steady": steady,
    "noisy": noisy,
}


def candidates(count_of_each: int, first_seed: int = 0) -> Iterator[Candidate]:
    """As many candidates of each behaviour; the same seed gives the same candidates."""
    for behaviour, way in WORK_OF.items():
        for seed in range(first_seed, first_seed + count_of_each):
            work = Work(Random(f"{behaviour} {seed}"))
            way(work)
            yield Candidate(
                name=f"{behaviour} {seed}",
                behaviour=behaviour,
                actions=tuple(action for action in work.actions if action.at_s <= QUESTION_S),
            )
