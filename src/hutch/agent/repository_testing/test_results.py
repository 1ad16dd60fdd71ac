"""The results of a test run, for every kind of runner."""

import re
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, Literal, NamedTuple

from hutch.agent.repository_testing.error_summary_line import error_line
from hutch.agent.text_for_model import shortened
from hutch.domain.test_run_events import Outcome
from hutch.system.lazy_dataclass import dataclass

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
    "The test runner is not in the jail. Install it below /usr where Hutch runs, name its directory in the "
    "setting jail.toolchains, or set tests.command in .hutch/config.toml."
)
NO_PYTEST = (
    "pytest is not in the jail. `hutch environment build` installs what the repository names, or says why it "
    "cannot. Or install it where Hutch runs (sudo apt-get install -y python3-pytest), or set tests.command "
    "in .hutch/config.toml."
)
NO_RUNNER = (
    "{name} is not in the jail, and the repository has no node_modules. `hutch environment build` installs "
    "what the repository names, or says why it cannot. Or install it where Hutch runs "
    "(sudo npm install -g {bin}), or set tests.command in .hutch/config.toml."
)
NODE_FILE = re.compile(r"\.[cm]?[jt]sx?\.")
NOT_STARTED = (126, 127)  # exit codes of a shell


Stopped = Literal["", "cancelled", "silence"]


def is_missing(reason: str) -> bool:
    """True if tests did not pass because the runner is missing, which is so on every other state too."""
    return reason.endswith(".hutch/config.toml.")


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed test: its name, its message and its location."""

    name: str
    message: str
    location: str = ""


class Case(NamedTuple):
    """One test, as its runner reports it."""

    name: str
    outcome: Outcome
    duration_s: float = 0.0
    message: str = ""
    file: str = ""
    line: int = 0
    selector: str = ""  # what the runner calls it, to run it alone; empty: its name
    suite: str = ""  # set when the reports of several runners are combined


def name_in_file(name: str) -> str:
    """The name of a test as Vitest's options match it: its report has `file.js.outer > inner`."""
    return NODE_FILE.split(name)[-1].replace(" > ", " ")


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of tests by outcome, with the failures, and with each test if the runner names them."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: tuple[Failure, ...] = field(default=())
    cases: tuple[Case, ...] = field(default=(), compare=False)
    problem: str = ""  # why the report proves no pass, as a clause: it claims failures that it does not list

    @property
    def total(self) -> int:
        return self.passed + self.failed + self.skipped

    def only(self, names: Sequence[str]) -> "Counts":
        """The same without skipped tests that have none of these names: they were not selected."""
        cases = tuple(case for case in self.cases if case.outcome != "skipped" or _is_named(case.name, names))
        return replace(self, skipped=self.skipped - (len(self.cases) - len(cases)), cases=cases)

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            (*self.failures, *other.failures),
            (*self.cases, *other.cases),
            self.problem or other.problem,
        )


def _is_named(name: str, names: Sequence[str]) -> bool:
    return any(name_in_file(each) in name_in_file(name) for each in names)


class UnreadableReport(Exception):
    """A report that no runner writes. The message is a clause that says why."""


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
    suite: str = ""  # the name of its tests as a whole
    error: str = ""  # why it could not be started
    refusal: str = ""  # the rule of a policy that it would have broken
    unreadable: str = ""  # why the report was not read, as a clause
    stopped: Stopped = ""
    parts: tuple["Report", ...] = ()  # the reports that this one combines

    @property
    def ok(self) -> bool:
        """True if tests ran and all of them passed. The exit code and the counts must agree.

        Of several suites, those whose runner is not installed do not count, if any other ran.
        """
        if self.stopped:
            return False
        if self.parts:
            ran = [part for part in self.parts if not part.is_missing]
            return bool(ran) and all(part.ok for part in ran)
        if self.exit_code != 0 or self.timed_out or self.limit:
            return False
        if self.unreadable:
            return False
        if self.counts is None:
            return not self.always_counts
        return self.counts.failed == 0 and self.counts.passed > 0 and not self.counts.problem

    def with_output_path(self, path: str) -> "Report":
        """The same report, with the path of its output."""
        return replace(self, output_path=path)

    @property
    def failing(self) -> str:
        """The failed tests by name, in one sentence."""
        counts = self.counts
        if counts is None or not counts.failed:
            return ""
        names = [case.name for case in counts.cases if case.outcome == "failed"]
        names = (names or [failure.name for failure in counts.failures])[:SHOWN_FAILURES]
        more = f" and {counts.failed - len(names):,} more" if counts.failed > len(names) else ""
        listed = f": {', '.join(names)}{more}" if names else ""
        return f"{counts.failed:,} test{'s fail' if counts.failed != 1 else ' fails'}{listed}."

    @property
    def is_missing(self) -> bool:
        """True if the runner could not be started, because it is not installed."""
        return not self.ok and is_missing(self.reason)

    def data(self) -> dict[str, Any]:
        """The report for the log and for programs."""
        counts = self.counts or Counts()
        return {
            "command": self.command,
            "ok": self.ok,
            "passed": counts.passed,
            "failed": counts.failed,
            "skipped": counts.skipped,
            "total": counts.total,
            "duration_s": round(self.duration_s, 3),
            "reason": self.reason,
            "limit": self.limit_reached,
        }

    @property
    def limit_reached(self) -> str:
        """The name of the limit that stopped the tests, or that they ran into."""
        if self.ok or self.stopped == "cancelled":
            return ""
        if self.stopped == "silence" or self.timed_out:
            return "tests.silence_s" if self.stopped else "tests.timeout_s"
        found = next((part.limit_reached for part in self.parts if part.limit_reached), "")
        return found or (self.limit or self.memory).partition(" ")[0]

    @property
    def reason(self) -> str:
        """Why the tests did not pass: memory ran out, or, if none failed, the error line and a remedy."""
        if self.parts:
            return self._reason_of_parts()
        if self.memory and not self.ok:
            return self._memory_text()
        if self.stopped:
            return self._verdict()
        if self.refusal:
            return self.refusal
        if self.error:
            return f"{self.error} {NOT_THERE}"
        if self.ok or (self.counts and self.counts.failed):
            return ""
        if missing := self._missing():
            return f"The tests cannot be run: {NO_RUNNER.format(**missing.groupdict())}"
        line = "" if self.timed_out or self.limit or self.exit_code == 0 else error_line(self.output)
        verdict = f"{self._verdict().rstrip('.')}: {line}." if line else self._verdict()
        if NOT_INSTALLED in self.output:
            return f"{verdict} {NO_PYTEST}"
        return f"{verdict} {NOT_THERE}" if self.exit_code in NOT_STARTED else verdict

    def text(self) -> str:
        """The report for the model: the verdict, the first failures, and the path of the output."""
        memory = [self._memory_text()] if self.memory and not self.ok else []
        lines = [self._verdict(), *memory, f"({self.runner}: {self.command}, {self.duration_s:.1f} s)"]
        lines += [f"{part.suite}: {part.reason or part._verdict()}" for part in self.parts]
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

    def _reason_of_parts(self) -> str:
        """The reasons of the suites that did not pass, or could not be run."""
        reasons = [f"{part.suite}: {part.reason}" for part in self.parts if part.reason]
        if self.stopped and not reasons:
            return self._verdict()
        return " ".join(reasons)

    def _verdict(self) -> str:
        if stopped := self._stopped_text():
            return stopped
        if self.counts is None:
            if self.parts and not self.ok:
                return "The tests failed."
            if self.exit_code != 0 and not self.ok:
                return f"The tests failed with exit code {self.exit_code}."
            if self.unreadable:
                return f"The report does not count: {self.unreadable}. So no pass is proven."
            if not self.ok:
                return "The runner ended without a readable report. So no pass is proven."
            return "The test command succeeded; it reports no counts."
        counts = self.counts
        parts = [f"{counts.failed} failed"] if counts.failed else []
        parts += [f"{counts.passed} passed"] if counts.passed or not parts else []
        parts += [f"{counts.skipped} skipped"] if counts.skipped else []
        summary = ", ".join(parts)
        if not counts.passed and not counts.failed:
            return f"No test was run ({summary}), so nothing is proven. Check the path or the pattern."
        if self.parts and self.ok:
            missing = ", ".join(part.suite for part in self.parts if part.is_missing)
            return f"{summary}. Not run, since the runner is missing: {missing}." if missing else summary
        if self.exit_code != 0 and not counts.failed:
            return f"{summary}, but the runner ended with exit code {self.exit_code}: not a pass."
        if counts.problem and not counts.failed:
            return f"{summary}, but {counts.problem}: not a pass."
        return summary

    def _stopped_text(self) -> str:
        counts = self.counts or Counts()
        so_far = f" Until then: {counts.passed} passed, {counts.failed} failed." if counts.total else ""
        if self.stopped == "cancelled":
            return f"The tests were cancelled.{so_far}"
        if self.stopped == "silence":
            return (
                f"The tests printed nothing for too long and were stopped.{so_far} Run fewer, or give "
                "a timeout_s; the setting is tests.silence_s."
            )
        if self.timed_out:
            return (
                "The tests took too long and were stopped. Run fewer of them, or give a larger timeout_s; "
                "the setting is tests.timeout_s."
            )
        return f"The tests were stopped by the limit {self.limit}." if self.limit else ""


def combine(reports: Sequence[Report]) -> Report:
    """The report of several suites, which ran after each other."""
    if len(reports) == 1:
        return reports[0]
    known = [report.counts for report in reports if report.counts is not None]
    hurt = next((report for report in reports if report.timed_out or report.limit or report.memory), None)
    return Report(
        runner=f"{len(reports)} suites",
        command="; ".join(report.command for report in reports),
        counts=sum(known, Counts()) if known else None,
        exit_code=next((report.exit_code for report in reports if report.exit_code), 0),
        timed_out=any(report.timed_out for report in reports),
        limit=hurt.limit if hurt else "",
        memory=hurt.memory if hurt else "",
        output="\n".join(f"== {report.suite}\n{report.output}" for report in reports if report.output),
        output_path=next((report.output_path for report in reports if report.output_path), ""),
        duration_s=sum(report.duration_s for report in reports),
        stopped=next((report.stopped for report in reports if report.stopped), ""),
        parts=tuple(reports),
    )


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
