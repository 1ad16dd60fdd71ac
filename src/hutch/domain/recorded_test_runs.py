"""A test run as a row, its tests, and the comparison of two runs."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, NamedTuple, Self

from hutch.domain.test_run_events import Outcome, RanTests, StartedTests
from hutch.system.lazy_dataclass import dataclass

TestRunState = Literal["running", "passed", "failed", "cancelled", "lost"]
"""`lost`: the process that ran it ended without a result."""
CaseKey = tuple[str, str]  # suite and name


class RecordedCase(NamedTuple):
    """A test of a recorded run."""

    suite: str
    name: str
    outcome: Outcome
    duration_s: float = 0.0
    message: str = ""
    file: str = ""
    line: int = 0
    selector: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A test run of a session."""

    id: str
    session_id: str
    run_id: str = ""
    by: str = ""
    cause: str = "request"
    state: TestRunState = "running"
    command: str = ""
    reason: str = ""
    partial: bool = False
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    total: int = 0
    stored: int = 0  # tests that are listed; 0 when they were deleted since
    started_ms: int = 0
    ended_ms: int = 0  # 0 until then

    @classmethod
    def begin(cls, started: StartedTests, session_id: str, now_ms: int) -> Self:
        return cls(
            id=started.test_run,
            session_id=session_id,
            run_id=started.run_id,
            by=started.by,
            cause=started.cause,
            command=started.command,
            partial=bool(started.files or started.tests or started.failed_only),
            started_ms=now_ms,
        )

    @classmethod
    def end(cls, started: StartedTests, ran: RanTests, session_id: str, began_ms: int, now_ms: int) -> Self:
        state: TestRunState = "cancelled" if ran.cancelled else "passed" if ran.ok else "failed"
        return cls(
            id=ran.test_run,
            session_id=session_id,
            run_id=ran.run_id,
            by=ran.by,
            cause=ran.cause,
            state=state,
            command=ran.command,
            reason=ran.reason,
            partial=ran.partial,
            passed=ran.passed,
            failed=ran.failed,
            skipped=ran.skipped,
            total=ran.total,
            started_ms=began_ms,
            ended_ms=now_ms,
        )


@dataclass(frozen=True, slots=True)
class PastOutcome:
    """How one test ended in one run."""

    test_run: str
    ended_ms: int
    outcome: Outcome
    duration_s: float
    message: str = ""


@dataclass(frozen=True, slots=True)
class KnownOutcomes:
    """How each test of a run ended."""

    id: str
    outcomes: Mapping[CaseKey, Outcome]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The changes between two runs, by the tests that both have."""

    old: str
    new: str
    fixed: list[CaseKey] = field(default_factory=list)  # failed, and passed since
    broke: list[CaseKey] = field(default_factory=list)  # did not fail, and fail now
    other: list[CaseKey] = field(default_factory=list)  # passed or skipped, and the other now
    unchanged: int = 0
    added: list[CaseKey] = field(default_factory=list)
    removed: list[CaseKey] = field(default_factory=list)

    @property
    def common(self) -> int:
        return self.unchanged + len(self.fixed) + len(self.broke) + len(self.other)


def compare_outcomes(
    old: str, before: Mapping[CaseKey, Outcome], new: str, now: Mapping[CaseKey, Outcome]
) -> Comparison:
    """Compare two runs. Tests that failed and are skipped now are neither fixed nor broken."""
    compared = Comparison(old, new)
    unchanged = 0
    for key, outcome in now.items():
        earlier = before.get(key)
        if earlier is None:
            compared.added.append(key)
        elif earlier == outcome:
            unchanged += 1
        elif outcome == "failed":
            compared.broke.append(key)
        elif earlier == "failed" and outcome == "passed":
            compared.fixed.append(key)
        else:
            compared.other.append(key)
    removed = [key for key in before if key not in now]
    return Comparison(
        old, new, compared.fixed, compared.broke, compared.other, unchanged, compared.added, removed
    )
