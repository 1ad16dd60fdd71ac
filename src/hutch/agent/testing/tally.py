"""Counting as results come by, however many there are."""

from collections.abc import Callable

from hutch.agent.testing.report import Counts, Failure

MAX_FAILURES = 100  # that are kept; the others are only counted


class Tally:
    """Tests by how they ended, so far."""

    def __init__(self) -> None:
        self.passed = self.failed = self.skipped = 0
        self._failures: list[Failure] = []

    def fail(self, tell: Callable[[], Failure]) -> None:
        """One more; `tell` is called only when there is room for what it says."""
        self.failed += 1
        if len(self._failures) < MAX_FAILURES:
            self._failures.append(tell())

    def counts(self) -> Counts:
        return Counts(self.passed, self.failed, self.skipped, tuple(self._failures))
