"""Counts test results as they arrive, in bounded memory."""

from collections.abc import Callable

from hutch.agent.repository_testing.failed_test_message import in_one_line, own_path
from hutch.agent.repository_testing.test_results import Case, Counts, Failure
from hutch.domain.test_run_events import Outcome

MAX_FAILURES = 100  # that are stored with their whole message; the others are only counted
MAX_CASES = 20_000  # that are stored by name
MAX_DURATION_S = 1e6
MAX_LINE = 10_000_000


class Tally:
    """Numbers of tests by outcome so far."""

    def __init__(self) -> None:
        self.passed = self.failed = self.skipped = 0
        self.problem = ""
        self._failures: list[Failure] = []
        self._cases: list[Case] = []

    def add(
        self,
        outcome: Outcome,
        name: str,
        *,
        duration_s: float = 0.0,
        file: str = "",
        line: int = 0,
        selector: str = "",
        reason: str = "",
        describe: Callable[[], Failure],
    ) -> None:
        """Count a test and store it by name; `describe` is called only while failures are stored. `reason`
        says why it was skipped."""
        message = in_one_line(reason) if reason and outcome == "skipped" else ""
        if (failure := self.count(outcome, describe)) is not None:
            message = failure.message
            file, line = _place(failure.location, file, line)
        spare = MAX_FAILURES if outcome == "failed" else 0
        if len(self._cases) < MAX_CASES + spare:
            name = in_one_line(name) or "?"
            file, selector = in_one_line(own_path(file)) if file else "", in_one_line(selector)
            took = duration_s if 0 <= duration_s <= MAX_DURATION_S else 0.0  # also when it is no number
            self._cases.append(Case(name, outcome, took, message, file, line, selector))

    def count(self, outcome: Outcome, describe: Callable[[], Failure]) -> Failure | None:
        """Count a test, and return its failure if that is stored."""
        if outcome == "passed":
            self.passed += 1
        elif outcome == "skipped":
            self.skipped += 1
        else:
            self.failed += 1
            if len(self._failures) < MAX_FAILURES:
                self._failures.append(describe())
                return self._failures[-1]
        return None

    def counts(self) -> Counts:
        cases = tuple(self._cases)
        return Counts(self.passed, self.failed, self.skipped, tuple(self._failures), cases, self.problem)


def _place(location: str, file: str, line: int) -> tuple[str, int]:
    """The file and line of a failure; the test's own if the failure has none."""
    found, _, number = location.rpartition(":")
    if found and number.isdecimal() and len(number) <= 7:
        return found, int(number)
    return file, line


def parsed_number(text: object) -> float:
    """A duration of a report; 0 when it is none."""
    try:
        return float(str(text)[:40].replace(",", ""))
    except ValueError:
        return 0.0


def parsed_line(text: object) -> int:
    """A line number of a report; 0 when it is none."""
    digits = str(text)[:12]
    return min(int(digits), MAX_LINE) if digits.isdecimal() else 0
