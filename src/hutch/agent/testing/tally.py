"""Counts test results as they arrive, in bounded memory."""

from collections.abc import Callable

from hutch.agent.testing.report import Counts, Failure

MAX_FAILURES = 100  # that are stored; the others are only counted


class Tally:
    """Numbers of tests by outcome so far."""

    def __init__(self) -> None:
        self.passed = self.failed = self.skipped = 0
        self._failures: list[Failure] = []

    def fail(self, describe: Callable[[], Failure]) -> None:
        """Count a failure; `describe` is called only while failures are stored."""
        self.failed += 1
        if len(self._failures) < MAX_FAILURES:
            self._failures.append(describe())

    def counts(self) -> Counts:
        return Counts(self.passed, self.failed, self.skipped, tuple(self._failures))
