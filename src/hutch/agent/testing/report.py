"""The results of a test run, for every kind of runner."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hutch.agent.testing.error_line import error_line
from hutch.agent.text_for_model import shortened

SHOWN_FAILURES = 5
SHOWN_CHARS = 1200  # of one failure
TAIL_CHARS = 2000  # of the output, when no counts could be read from it
SHOWN_NAMES = 20  # of further failures
NOT_INSTALLED = "No module named pytest"
WITHOUT_PYTEST = (
    "pytest is not installed in the jail. Install it into a .venv of the workspace, or run the tests in "
    "another way with bash. The user can set tests.command in .hutch/config.toml."
)
NOT_IN_NODE = re.compile(r"^(?P<name>Jest|Vitest) is not installed: .*/(?P<bin>\w+)\.$", re.MULTILINE)
WITHOUT_IT = (
    "{name} is not installed in the workspace. Install the packages of package.json with bash (npm ci), "
    "which needs the network, or run the tests in another way. The user can set tests.command in "
    ".hutch/config.toml."
)

# For users, who can do more about it than a model.
NOT_THERE = (
    "The test runner is not in the jail. Install it below /usr where Hutch runs, or set tests.command in "
    ".hutch/config.toml."
)
NO_PYTEST = (
    "pytest is not in the jail. Install it where Hutch runs (sudo apt-get install -y python3-pytest), or set "
    "tests.command in .hutch/config.toml."
)
NO_RUNNER = (
    "{name} is not in the jail, and the repository has no node_modules. Let the agent install it (--net "
    "with the host of its registry, or jail.network), install it where Hutch runs (sudo npm install -g "
    "{bin}), or set tests.command in .hutch/config.toml."
)
NOT_STARTED = (126, 127)  # exit codes of a shell


def is_missing(reason: str) -> bool:
    """Whether tests did not pass because the runner is missing, which is so on every other state too."""
    return reason.endswith(".hutch/config.toml.")


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed test: its name, its message and its location."""

    name: str
    message: str
    location: str = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of tests by outcome, with the failures."""

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
    counts: Counts | None  # None when the runner reported none
    exit_code: int | None
    always_counts: bool = False  # a run without counts is no run
    timed_out: bool = False
    limit: str = ""  # what stopped it
    memory: str = ""  # the limit of memory, when the output says that memory ran out
    output: str = ""
    output_path: str = ""  # in the jail, when the output is too long for the model
    duration_s: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether tests ran and all of them passed. The exit code and the counts must agree."""
        if self.exit_code != 0 or self.timed_out or self.limit:
            return False
        if self.counts is None:
            return not self.always_counts
        return self.counts.failed == 0 and self.counts.passed > 0

    def with_output_path(self, path: str) -> "Report":
        """The same report, with the path of its output."""
        return replace(self, output_path=path)

    def data(self) -> dict[str, Any]:
        """The report for the log and for programs."""
        counts = self.counts or Counts()
        return {
            "command": self.command,
            "ok": self.ok,
            "passed": counts.passed,
            "failed": counts.failed,
            "skipped": counts.skipped,
            "duration_s": round(self.duration_s, 3),
            "reason": self.reason,
        }

    @property
    def reason(self) -> str:
        """Why the tests did not pass: memory ran out, or, if none failed, the error line and a remedy."""
        if self.memory and not self.ok:
            return self._memory_text()
        if self.ok or (self.counts and self.counts.failed):
            return ""
        if missing := self._missing():
            return f"The tests cannot be run: {NO_RUNNER.format(**missing.groupdict())}"
        line = "" if self.timed_out or self.limit else error_line(self.output)
        verdict = f"{self._verdict().rstrip('.')}: {line}." if line else self._verdict()
        if NOT_INSTALLED in self.output:
            return f"{verdict} {NO_PYTEST}"
        return f"{verdict} {NOT_THERE}" if self.exit_code in NOT_STARTED else verdict

    def text(self) -> str:
        """The report for the model: the verdict, the first failures, and the path of the output."""
        memory = [self._memory_text()] if self.memory and not self.ok else []
        lines = [self._verdict(), *memory, f"({self.runner}: {self.command}, {self.duration_s:.1f} s)"]
        if self.counts and self.counts.failures:
            lines += _failures(self.counts.failures, self.counts.failed)
        elif not self.ok:
            lines += ["", shortened(self.output.strip(), TAIL_CHARS, head=0.2)]
        if not self.ok and NOT_INSTALLED in self.output:
            lines += ["", WITHOUT_PYTEST]
        if missing := self._missing():
            lines += ["", WITHOUT_IT.format(name=missing["name"])]
        if self.output_path and not self.ok:
            lines += ["", f"The output is in {self.output_path}: read parts of it with bash."]
        return "\n".join(lines).rstrip()

    def _memory_text(self) -> str:
        return f"Memory ran out. The limit is {self.memory}: use less, or let the user raise that setting."

    def _missing(self) -> re.Match[str] | None:
        """The runner that the output reports as not installed."""
        return NOT_IN_NODE.search(self.output) if self.exit_code in NOT_STARTED else None

    def _verdict(self) -> str:
        if self.timed_out:
            return (
                "The tests took too long and were stopped. Run fewer of them, or give a larger timeout_s; "
                "the setting is tests.timeout_s."
            )
        if self.limit:
            return f"The tests were stopped by the limit {self.limit}."
        if self.counts is None:
            if self.exit_code != 0:
                return f"The tests failed with exit code {self.exit_code}."
            if not self.ok:
                return "The runner ended without a readable report, so nothing is proven: not a pass."
            return "The test command succeeded; it reports no counts."
        counts = self.counts
        parts = [f"{counts.failed} failed"] if counts.failed else []
        parts += [f"{counts.passed} passed"] if counts.passed or not parts else []
        parts += [f"{counts.skipped} skipped"] if counts.skipped else []
        summary = ", ".join(parts)
        if not counts.passed and not counts.failed:
            return f"No test was run ({summary}), so nothing is proven. Check the path or the pattern."
        if self.exit_code != 0 and not counts.failed:
            return f"{summary}, but the runner ended with exit code {self.exit_code}: not a pass."
        return summary


def _failures(failures: Sequence[Failure], failed: int) -> list[str]:
    lines = []
    for failure in failures[:SHOWN_FAILURES]:
        where = f" at {failure.location}" if failure.location else ""
        message = failure.message.strip()
        if len(message) > SHOWN_CHARS:
            message = shortened(message, SHOWN_CHARS, head=0.6)
        lines += ["", f"FAILED {failure.name}{where}", message]
    if len(failures) > SHOWN_FAILURES:
        names = [failure.name for failure in failures[SHOWN_FAILURES : SHOWN_FAILURES + SHOWN_NAMES]]
        rest = failed - SHOWN_FAILURES
        dots = ", …" if rest > len(names) else ""
        lines += ["", f"Also failed ({rest:,} more): {', '.join(names)}{dots}"]
    return lines
