"""Synthetic candidates by an author without knowledge of the policy that judges them.

Each candidate is a person with habits (speed of typing, size of edits, share of deleted text, gaps) that are
drawn from a random generator of their own, and who works on the question step by step. The inputs and
thresholds of the policy played no part in the choice of these numbers, and should not play one later.
"""

from collections.abc import Callable, Sequence
from random import Random

from tests.flows.candidate_traces import DURATION_S, Candidate, TestRun, Typing

STUCK, SLOW_THINKERS, NOISY = 40, 30, 30

TOPICS = (
    "empty one_item two_items sorted reversed duplicates negative large unicode spaces none stable",
    "open_account deposit withdraw overdraft transfer history interest close fees rounding locked limits",
    "parse_number parse_sum product brackets nested unary_minus divide by_zero whitespace power names errors",
    "insert find missing remove remove_root iterate minimum maximum height balance bulk_load copy",
    "straight_line turn dead_end cycle no_path one_cell diagonal weights two_paths big_grid walls at_goal",
    "get put evict overwrite expire capacity_one refresh_on_get delete clear statistics resize concurrent",
)
ONSETS = ("at once", "after reading", "after a first attempt", "after some success")
FAILURES = ("the same tests", "other tests", "often no start", "old tests break", "back and forth")
TEMPERS = {  # how often this sort of person chooses each kind of edit
    "careful": {"tweak": 5.0, "write": 1.0, "debug": 2.0, "nothing": 0.4},
    "guesser": {"tweak": 8.0, "undo": 1.5, "nothing": 1.0},
    "rewriter": {"rewrite": 5.0, "write": 2.0, "tweak": 1.5},
    "paster": {"paste": 2.5, "undo": 2.0, "tweak": 3.0, "rewrite": 1.0},
    "printer": {"debug": 6.0, "tweak": 3.0, "undo": 0.5},
    "writer": {"write": 6.0, "tweak": 2.0, "rewrite": 0.7},
    "anything": {
        "tweak": 2.0,
        "write": 2.0,
        "rewrite": 1.0,
        "debug": 1.0,
        "undo": 1.0,
        "paste": 0.3,
        "nothing": 0.5,
    },
}


class Person:
    """A candidate at work: a clock, habits, a text of some length, and tests that pass or not yet."""

    def __init__(self, number: int, *, min_tests: int = 4) -> None:
        self.rng = rng = Random(number)
        self.at_s = 0.0
        self.work: list[TestRun | Typing] = []
        self.tests = rng.sample(rng.choice(TOPICS).split(), rng.randint(min_tests, 12))
        self.solved = 0  # the first of the tests
        self.text_chars = rng.randint(40, 700)  # begins as the given code
        self.chars_per_s = self.around(2.6, 0.5, 0.5, 7.5)
        self.burst_s = rng.uniform(1.5, 8.0)
        self.pause_s = self.around(4.5, 0.6, 1.0, 30.0)
        self.deleted_share = rng.betavariate(1.6, 6.0)
        self.tweak_chars = self.around(6.0, 0.7, 1.0, 40.0)
        self.rewrite_chars = self.around(150.0, 0.6, 30.0, 700.0)
        self.temper = rng.choice(list(TEMPERS))
        # Two people of one temper still differ: each has preferences of their own.
        self.edits = {
            edit: share * rng.gammavariate(2.0, 0.5) for edit, share in TEMPERS[self.temper].items()
        }

    def around(self, median: float, spread: float, low: float, high: float) -> float:
        """A positive number that is often near the median, and sometimes far above."""
        return min(max(median * self.rng.lognormvariate(0.0, spread), low), high)

    def happens(self, share: float) -> bool:
        return self.rng.random() < share

    @property
    def has_time(self) -> bool:
        return self.at_s < DURATION_S

    @property
    def unsolved(self) -> int:
        return len(self.tests) - self.solved

    def record(self, event: TestRun | Typing) -> None:
        if event.at_s <= DURATION_S:
            self.work.append(event)

    def think(self, seconds: float) -> None:
        self.at_s += seconds

    def burst(self, added: float, deleted: float = 0.0) -> None:
        removed = min(round(deleted), self.text_chars)
        inserted = round(added)
        if inserted or removed:
            self.text_chars += inserted - removed
            self.record(Typing(round(self.at_s, 1), inserted, removed))

    def write(self, seconds: float) -> None:
        """Type for this time, with the usual short pauses and corrections."""
        end_s = self.at_s + seconds
        while True:
            burst_s = self.around(self.burst_s, 0.4, 0.5, 12.0)
            self.at_s += self.rng.expovariate(1.0 / self.pause_s) + burst_s
            if self.at_s >= end_s:
                break
            added = self.chars_per_s * burst_s
            deleted = added * self.deleted_share * self.rng.uniform(0.0, 2.0)
            if self.happens(self.deleted_share / 2):  # a line that was wrong
                added, deleted = added * 0.2, added
            self.burst(added, deleted)
        self.at_s = end_s

    def run(self, *, newly: int = 0, broken: Sequence[str] = (), starts: bool = True) -> None:
        """Run the tests, of which `newly` pass for the first time and `broken` do not pass any more."""
        if starts:
            self.solved = min(self.solved + newly, len(self.tests))
            passed = frozenset(self.tests[: self.solved]) - frozenset(broken)
            self.record(TestRun(round(self.at_s, 1), passed, frozenset(self.tests) - passed))
        else:
            self.record(TestRun(round(self.at_s, 1)))
        self.at_s += self.rng.uniform(0.8, 5.0)

    def some_solved(self, low: int = 1) -> list[str]:
        """Some of the tests that have passed, at least `low` of them if there are so many."""
        count = self.rng.randint(min(low, self.solved), self.solved)
        return self.rng.sample(self.tests[: self.solved], count)

    def edit(self, seconds: float) -> None:
        """Change the code for this time, as this person likes to."""
        end_s = self.at_s + seconds
        kind = self.rng.choices(list(self.edits), list(self.edits.values()))[0]
        self.at_s += seconds * self.rng.uniform(0.1, 0.6)  # reads the failure first
        rest_s = end_s - self.at_s
        small = self.around(self.tweak_chars, 0.6, 1.0, 60.0)
        large = self.around(self.rewrite_chars, 0.5, 20.0, 900.0)
        if kind == "tweak":
            for _ in range(self.rng.choice((1, 1, 1, 2, 2, 3))):
                self.at_s += rest_s * self.rng.uniform(0.05, 0.3)
                self.burst(small * self.rng.uniform(0.3, 1.5), small * self.rng.uniform(0.0, 1.4))
        elif kind == "rewrite":
            self.burst(0, large)
            self.write(rest_s * 0.95)
        elif kind == "debug":
            printed = self.rng.randint(9, 45)
            self.burst(printed)
            if self.happens(0.5):
                self.at_s += rest_s * 0.6
                self.burst(small, printed)
        elif kind == "paste":
            self.at_s += rest_s * self.rng.uniform(0.0, 0.5)
            self.burst(large, large * self.rng.choice((0.0, 0.0, 0.6, 1.0)))
        elif kind == "undo":
            self.burst(self.rng.choice((0.0, small)), large * self.rng.uniform(0.1, 0.6))
        elif kind == "write":
            self.write(rest_s)
        self.at_s = end_s

    def solve(self, tests: int, until_s: float, gap_s: float) -> None:
        """Make progress, with a failure now and then, and end with a run that has brought something."""
        target = min(self.solved + tests, len(self.tests) - 1)
        failing = self.rng.choice((0.0, 0.1, 0.25, 0.4))
        while self.solved < target and self.at_s < until_s:
            self.write(self.around(gap_s, 0.4, 12.0, 400.0))
            for _ in range(3):
                if not self.happens(failing):
                    break
                self.run(starts=self.happens(0.7), broken=self.some_solved(0) if self.happens(0.3) else ())
                self.edit(self.around(gap_s * 0.6, 0.4, 8.0, 200.0))
            self.run(newly=min(self.rng.choice((1, 1, 1, 2, 2, 3)), target - self.solved))

    def candidate(self, name: str, kind: str, stuck_from_s: float = 0.0) -> Candidate:
        return Candidate(name, kind, tuple(self.work), round(stuck_from_s, 1))


def stuck(number: int) -> Candidate:
    onset, failure = ONSETS[number % 4], FAILURES[number // 4 % 5]
    person = Person(number)
    rng = person.rng
    needs_solved = failure not in ("the same tests", "often no start")
    if onset == "after reading":
        person.think(person.around(240.0, 0.5, 90.0, 800.0))
    if onset in ("at once", "after reading"):
        if needs_solved or person.happens(0.3):  # the given code passes the simplest tests already
            person.think(rng.uniform(5.0, 60.0))
            person.run(newly=rng.randint(2, 3))
    elif onset == "after a first attempt":
        person.think(rng.uniform(10.0, 200.0))
        person.write(rng.uniform(60.0, 480.0))
        person.run(newly=rng.randint(2, len(person.tests) - 1))
    else:
        person.think(rng.uniform(10.0, 240.0))
        until_s = rng.uniform(400.0, 1700.0)
        person.solve(rng.randint(2, len(person.tests) - 1), until_s, rng.uniform(30.0, 330.0))
    begin_s = person.at_s
    person.write(person.around(60.0, 0.5, 15.0, 240.0))
    stuck_from_s = max(begin_s, person.at_s - rng.uniform(25.0, 120.0))
    fail_until_the_end(person, failure)
    return person.candidate(f"stuck {number}: {onset}, {failure}, {person.temper}", "stuck", stuck_from_s)


def fail_until_the_end(person: Person, failure: str) -> None:
    rng = person.rng
    gap_s, spread = rng.uniform(30.0, 85.0), rng.uniform(0.15, 0.5)
    end_gap = rng.choice((1.0, 1.0, 0.65, 1.25))  # some become hasty, some tired
    pause_share = rng.choice((0.0, 0.0, 0.02, 0.05))
    hasty_share = rng.choice((0.0, 0.0, 0.1, 0.25))  # runs again after a few seconds
    changes_mind = person.happens(0.3)
    fail = failures_of(person, failure)
    begin_s = person.at_s
    while person.has_time:
        fail()
        tired = 1.0 + (end_gap - 1.0) * (person.at_s - begin_s) / (DURATION_S - begin_s)
        next_s = person.around(gap_s * tired, spread, 12.0, 200.0)
        person.edit(rng.uniform(5.0, 15.0) if person.happens(hasty_share) else next_s)
        if person.happens(pause_share):
            person.think(rng.uniform(60.0, 200.0))
        if changes_mind and person.happens(0.08):
            fail = failures_of(person, rng.choice(FAILURES))


def failures_of(person: Person, failure: str) -> Callable[[], None]:
    """A function that runs the tests once more, without any that passes for the first time."""
    rng = person.rng
    typing_error = rng.choice((0.0, 0.0, 0.04, 0.1))
    no_start = rng.uniform(0.3, 0.85) if failure == "often no start" else typing_error
    one, other = person.some_solved(), person.some_solved(0)
    worse: list[str] = []
    turn = 0

    def fail() -> None:
        nonlocal turn
        turn += 1
        if person.happens(no_start):
            person.run(starts=False)
        elif failure == "other tests":
            person.run(broken=person.some_solved(0))
        elif failure == "old tests break":
            passing = [test for test in person.tests[: person.solved] if test not in worse]
            if passing and person.happens(0.25):
                worse.append(rng.choice(passing))
            elif worse and person.happens(0.2):
                worse.pop(0)
            person.run(broken=worse)
        elif failure == "back and forth":
            person.run(broken=one if turn % 2 else other)
        else:
            person.run()

    return fail


SLOW_HABITS = {  # first thought, later thoughts, writing between runs (medians in s), share of failing tries
    "reads for long": (480.0, 100.0, 110.0, 0.15),
    "reads the statement twice": (200.0, 150.0, 120.0, 0.2),
    "goes away for a while": (120.0, 130.0, 100.0, 0.2),
    "writes a plan": (150.0, 160.0, 130.0, 0.1),
    "types with two fingers": (100.0, 60.0, 280.0, 0.2),
    "runs only at the end": (200.0, 140.0, 200.0, 0.3),
    "small sure steps": (90.0, 160.0, 80.0, 0.0),
    "stumbles": (150.0, 120.0, 100.0, 0.7),
    "thinks before each line": (240.0, 280.0, 100.0, 0.1),
    "tidies as they go": (120.0, 120.0, 160.0, 0.1),
}


def slow_thinker(number: int) -> Candidate:
    habit = list(SLOW_HABITS)[number % len(SLOW_HABITS)]
    first_s, thought_s, writing_s, failing = SLOW_HABITS[habit]
    person = Person(number)
    rng = person.rng
    person.chars_per_s *= 0.3 if habit == "types with two fingers" else rng.uniform(0.5, 1.0)
    person.pause_s *= rng.uniform(0.8, 2.0)
    begin_slowly(person, habit, person.around(first_s, 0.4, 40.0, 900.0))
    away_s = rng.uniform(500.0, 1600.0) if habit == "goes away for a while" or person.happens(0.15) else None
    pace = rng.uniform(0.75, 1.35)
    brought, failed = 0, 0
    while person.has_time and person.unsolved:
        person.think(person.around(thought_s * pace, 0.5, 15.0, 700.0))
        person.write(person.around(writing_s * pace, 0.4, 20.0, 600.0))
        if away_s is not None and person.at_s > away_s:
            person.think(rng.uniform(300.0, 720.0))
            away_s = None
        tries = 0
        while tries < 2 and failed <= brought and person.happens(failing):  # most runs bring something
            person.run(starts=person.happens(0.75))
            person.think(person.around(70.0 * pace, 0.6, 10.0, 400.0))
            person.edit(person.around(80.0 * pace, 0.4, 25.0, 240.0))
            tries, failed = tries + 1, failed + 1
        leap = person.unsolved if habit == "runs only at the end" and person.happens(0.4) else 1
        person.run(newly=max(leap, rng.choice((1, 1, 1, 2, 2, 3))))
        brought += 1
        if habit == "tidies as they go" and person.happens(0.6):  # better names, shorter lines
            person.think(rng.uniform(10.0, 90.0))
            person.burst(
                person.rewrite_chars * rng.uniform(0.2, 0.9), person.rewrite_chars * rng.uniform(0.3, 1.0)
            )
    while person.has_time and person.happens(0.6):  # all is solved: reads it again, polishes it
        person.think(rng.uniform(60.0, 500.0))
        person.edit(rng.uniform(20.0, 120.0))
        person.run()
    return person.candidate(f"slow thinker {number}: {habit}", "slow_thinker")


def begin_slowly(person: Person, habit: str, first_s: float) -> None:
    rng = person.rng
    if person.happens(0.2):  # the given code, to see what the tests say
        person.think(rng.uniform(10.0, 90.0))
        person.run(newly=rng.choice((0, 0, 1)))
    person.think(first_s)
    if habit == "reads the statement twice":
        person.write(rng.uniform(30.0, 150.0))
        person.think(rng.uniform(200.0, 600.0))
        if person.happens(0.6):
            person.burst(0, rng.uniform(30.0, 200.0))
    elif habit == "writes a plan":
        before = person.text_chars
        person.write(rng.uniform(90.0, 400.0))
        if person.happens(0.5):
            person.burst(0, max(person.text_chars - before, 0) * rng.uniform(0.3, 1.0))
    elif habit == "runs only at the end":
        end_s = rng.uniform(700.0, 1700.0)
        while person.at_s < end_s:
            person.write(person.around(100.0, 0.6, 20.0, 400.0))
            person.think(person.around(70.0, 0.7, 10.0, 400.0))


# Gap of good runs, good runs in a row, gap of bad runs, time of a bad stretch; then shares: no start, breaks.
RHYTHMS = {
    "sprints and walls": ((20, 60), (2, 4), (30, 70), (150, 420), 0.1, 0.2),
    "breaks what passed": ((40, 100), (1, 2), (30, 80), (90, 300), 0.1, 0.8),
    "runs after each line": ((9, 28), (1, 3), (8, 25), (40, 200), 0.2, 0.3),
    "moody": ((15, 180), (1, 4), (15, 140), (40, 480), 0.15, 0.4),
    "careless about syntax": ((30, 90), (1, 3), (12, 50), (50, 240), 0.65, 0.1),
    "struggles, then leaps": ((15, 50), (1, 2), (40, 100), (270, 540), 0.1, 0.3),
    "one step back, two forward": ((40, 90), (2, 2), (35, 90), (30, 120), 0.05, 1.0),
    "hesitates between sprints": ((15, 45), (1, 3), (25, 60), (60, 200), 0.1, 0.3),
}


def noisy(number: int) -> Candidate:
    rhythm = list(RHYTHMS)[number % len(RHYTHMS)]
    person = Person(number, min_tests=6)
    rng = person.rng
    thinking = 0.9 if rhythm == "hesitates between sprints" else rng.choice((0.0, 0.2, 0.5))
    stops_when_solved = person.happens(0.3)
    person.think(rng.uniform(10.0, 300.0))
    person.write(rng.uniform(20.0, 240.0))
    good = person.happens(0.6)
    while person.has_time and (person.unsolved or not stops_when_solved):
        if good:
            progress(person, rhythm)
        else:
            setback(person, rhythm)
        if person.happens(thinking):
            person.think(person.around(90.0, 0.6, 20.0, 400.0))
        good = not good
    return person.candidate(f"noisy {number}: {rhythm}, {person.temper}", "noisy")


def progress(person: Person, rhythm: str) -> None:
    """Some runs in a row that bring something, or improve code that passes all tests already."""
    gap_s, steps, _, _, _, breaks = RHYTHMS[rhythm]
    leap = 3 if rhythm == "struggles, then leaps" else 1
    for _ in range(person.rng.randint(*steps)):
        person.write(person.rng.uniform(*gap_s))
        before = person.tests[: person.solved]
        still_broken = [person.rng.choice(before)] if before and person.happens(breaks * 0.2) else []
        person.run(newly=person.rng.randint(1, leap), broken=still_broken)


def setback(person: Person, rhythm: str) -> None:
    """Failing runs for a time, and no test that passes for the first time."""
    _, _, gap_s, stretch_s, no_start, breaks = RHYTHMS[rhythm]
    end_s = person.at_s + person.rng.uniform(*stretch_s)
    broken = person.some_solved() if person.happens(breaks) or not person.unsolved else []
    while person.at_s < end_s:
        person.edit(person.rng.uniform(*gap_s))
        if person.happens(no_start):
            person.run(starts=False)
        else:
            person.run(broken=broken)
        if broken and person.happens(0.2):
            broken = person.some_solved()


def candidates() -> list[Candidate]:
    """The same 100 people at each call."""
    slow_from, noisy_from = STUCK + 1, STUCK + SLOW_THINKERS + 1
    return [
        *(stuck(number) for number in range(1, slow_from)),
        *(slow_thinker(number) for number in range(slow_from, noisy_from)),
        *(noisy(number) for number in range(noisy_from, noisy_from + NOISY)),
    ]
