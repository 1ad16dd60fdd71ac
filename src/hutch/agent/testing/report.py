"""What came of running tests, whatever ran them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

SHOWN_FAILURES = 5
SHOWN_LETTERS = 1200  # of one failure
TAIL_LETTERS = 2000  # of the output, when nothing could be read from it


@dataclass(frozen=True, slots=True)
class Failure:
    """A test that failed: which, where, and what it said."""

    name: str
    message: str
    location: str = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """Tests by how they ended."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: tuple[Failure, ...] = field(default=())

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            (*self.failures, *other.failures),
        )


@dataclass(frozen=True, slots=True)
class Report:
    """One run of the tests."""

    runner: str
    command: str
    counts: Counts | None  # None when the runner did not tell
    exit_code: int | None
    timed_out: bool = False
    limit: str = ""  # what stopped it
    output: str = ""
    output_path: str = ""
    duration_s: float = 0.0

    @property
    def ok(self) -> bool:
        """Everything that ran has passed, and something ran. The exit code and the counts must agree."""
        if self.exit_code != 0 or self.timed_out or self.limit:
            return False
        return self.counts is None or (self.counts.failed == 0 and self.counts.passed > 0)

    def data(self) -> dict[str, Any]:
        """For the log and for programs."""
        counts = self.counts or Counts()
        return {
            "command": self.command,
            "ok": self.ok,
            "passed": counts.passed,
            "failed": counts.failed,
            "skipped": counts.skipped,
            "duration_s": round(self.duration_s, 3),
        }

    def text(self) -> str:
        """For the model: the verdict first, then the first failures, then where the rest is."""
        lines = [self._verdict(), f"({self.runner}: {self.command}, {self.duration_s:.1f} s)"]
        if self.counts and self.counts.failures:
            lines += _failures(self.counts.failures)
        elif not self.ok:
            lines += ["", self.output[-TAIL_LETTERS:].strip()]
        if self.output_path:
            lines += ["", f"The whole output is in {self.output_path}."]
        return "\n".join(lines).rstrip()

    def _verdict(self) -> str:
        if self.timed_out:
            return "The tests took too long and were stopped. Run fewer of them, or give a larger timeout_s."
        if self.limit:
            return f"The tests were stopped by the limit {self.limit}."
        if self.counts is None:
            return "The tests passed." if self.ok else f"The tests failed with exit code {self.exit_code}."
        counts = self.counts
        told = [f"{counts.failed} failed"] if counts.failed else []
        told += [f"{counts.passed} passed"] if counts.passed or not told else []
        told += [f"{counts.skipped} skipped"] if counts.skipped else []
        summary = ", ".join(told)
        if not counts.passed and not counts.failed:
            return f"No test was run ({summary}), so nothing is shown. Look at the path or the pattern."
        if self.exit_code != 0 and not counts.failed:
            return f"{summary}, but the runner ended with exit code {self.exit_code}: not a pass."
        return summary


def _failures(failures: Sequence[Failure]) -> list[str]:
    lines = []
    for failure in failures[:SHOWN_FAILURES]:
        where = f" at {failure.location}" if failure.location else ""
        message = failure.message.strip()
        if len(message) > SHOWN_LETTERS:
            message = f"{message[: SHOWN_LETTERS // 3]}\n[...]\n{message[-SHOWN_LETTERS * 2 // 3 :]}"
        lines += ["", f"FAILED {failure.name}{where}", message]
    if len(failures) > SHOWN_FAILURES:
        more = [failure.name for failure in failures[SHOWN_FAILURES : SHOWN_FAILURES + 20]]
        lines += ["", f"Also failed ({len(failures) - SHOWN_FAILURES} more): {', '.join(more)}"]
    return lines
