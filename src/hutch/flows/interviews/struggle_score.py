"""A score from 0 to 1 for how much a candidate struggles with one question, from test runs and edits.

The score only steers how much help is offered. It does not measure the candidate, and is in no report.
Times are seconds of the interview's clock. Test runs and edits of the agent do not count.
"""

from collections import deque

from hutch.flows.interviews.struggle_and_help_thresholds import AdaptivePolicy
from hutch.system.lazy_dataclass import dataclass

MAX_REMEMBERED = 10_000  # edits and test runs within the longest window; older ones are dropped


@dataclass(frozen=True, slots=True)
class ObservedTests:
    """A test run of the candidate. Without names, the tests could not be run."""

    at_s: float
    ok: bool
    passed: frozenset[str]


@dataclass(frozen=True, slots=True)
class ObservedEdit:
    """Text that the candidate added and deleted."""

    at_s: float
    added_chars: int
    deleted_chars: int


@dataclass(frozen=True, slots=True)
class StruggleScore:
    """The score and its parts, as shares of 1 before they are weighted."""

    value: float
    failing_runs: float = 0.0
    repeated_failure: float = 0.0
    no_progress: float = 0.0
    churn: float = 0.0
    failing_run_count: int = 0  # within its window


class ObservedWork:
    """The work of a candidate on one question so far."""

    def __init__(self, policy: AdaptivePolicy, began_s: float = 0.0) -> None:
        self._parts = policy.score
        self._failed_s: deque[float] = deque(maxlen=MAX_REMEMBERED)  # test runs without progress
        self._edits: deque[ObservedEdit] = deque(maxlen=MAX_REMEMBERED)
        self._max_passed: int | None = None  # tests at once; None before the first test run
        self.repeated = 0  # failed test runs without progress, in a row
        self.all_pass = False
        self.progress_s = began_s  # when more tests passed at once than before
        self.last_run_s = began_s
        self.last_active_s = began_s

    def observe(self, seen: ObservedTests | ObservedEdit) -> None:
        """Add a test run or an edit; they come in the order of their times."""
        self.last_active_s = seen.at_s
        if isinstance(seen, ObservedEdit):
            self._edits.append(seen)
            return
        self.last_run_s = seen.at_s
        self.all_pass = seen.ok
        if self._note_passed(len(seen.passed)):
            self.progress_s = seen.at_s
            self.repeated = 0
        elif seen.ok:
            self.repeated = 0
        else:
            self.repeated += 1
            self._failed_s.append(seen.at_s)

    def _note_passed(self, count: int) -> bool:
        """True if more tests pass at once than ever before.

        Tests that pass in the very first run are no progress.
        A test that passes for the first time while another breaks is no progress.
        """
        before = self._max_passed
        self._max_passed = count if before is None else max(before, count)
        return before is not None and count > before

    def failed_runs(self, now_s: float, window_s: float) -> int:
        """Failed test runs without progress in the last `window_s` seconds."""
        return sum(1 for at_s in self._failed_s if at_s > now_s - window_s)

    def score(self, now_s: float) -> StruggleScore:
        """The score at this time."""
        if self.all_pass:
            return StruggleScore(0.0)
        parts = self._parts
        count = self.failed_runs(now_s, parts.failing_runs.window_s)
        failing = min(1.0, count / parts.failing_runs.full_at)
        repeated = min(1.0, self.repeated / parts.repeated_failure.full_at)
        span_s = parts.no_progress.full_at_s - parts.no_progress.from_s
        stalled = (now_s - self.progress_s - parts.no_progress.from_s) / span_s
        stalled = min(1.0, max(0.0, stalled))
        churn = self._churn(now_s)
        value = (
            parts.failing_runs.weight * failing
            + parts.repeated_failure.weight * repeated
            + parts.no_progress.weight * stalled
            + parts.churn.weight * churn
        )
        return StruggleScore(value, failing, repeated, stalled, churn, count)

    def _churn(self, now_s: float) -> float:
        """Deleted characters for each added one, at most 1; 0 while little was typed."""
        part = self._parts.churn
        while self._edits and self._edits[0].at_s <= now_s - part.window_s:
            self._edits.popleft()
        added = sum(edit.added_chars for edit in self._edits)
        deleted = sum(edit.deleted_chars for edit in self._edits)
        return min(1.0, deleted / added) if added > part.min_added_chars else 0.0
