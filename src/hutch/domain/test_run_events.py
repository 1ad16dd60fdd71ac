"""Events of test runs: who started one, what ran, and how each test ended."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from hutch.domain.base_event import Event

Outcome = Literal["passed", "failed", "skipped"]
TestsCause = Literal["tool", "delivery", "request", "watch", "auto"]
"""Why tests ran: see docs/events.md."""


class CaseResult(BaseModel):
    """One test: its name, how it ended, and where it is."""

    model_config = ConfigDict(frozen=True, extra="allow")

    suite: str
    name: str
    outcome: Outcome
    duration_s: float = 0.0
    message: str = ""
    file: str = ""
    line: int = 0


class SuiteResult(BaseModel):
    """The tests of one runner in one directory."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: str
    command: str
    ok: bool
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    duration_s: float = 0.0
    reason: str = ""


class StartedTests(Event):
    """Tests of the repository were started; `files` and `tests` are those that were asked for."""

    type: Literal["tests.started"] = "tests.started"
    test_run: str
    command: str
    suites: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    failed_only: bool = False
    cause: TestsCause = "request"
    by: str = ""
    run_id: str = ""
    call_id: str = ""


class RanTests(Event):
    """The tests of the repository were run.

    `cases` lists failed tests first; `omitted_cases` more are only in the session's table of tests.
    """

    type: Literal["tests.run"] = "tests.run"
    run_id: str
    command: str
    ok: bool
    passed: int
    failed: int
    skipped: int
    duration_s: float = 0.0
    reason: str = ""
    test_run: str = ""
    total: int = 0
    partial: bool = False
    cancelled: bool = False
    limit: str = ""
    cause: TestsCause = "tool"
    by: str = ""
    suites: tuple[SuiteResult, ...] = ()
    cases: tuple[CaseResult, ...] = ()
    omitted_cases: int = 0
    output: str = ""
    compared_with: str = ""
    fixed: int = 0
    broke: int = 0
    unchanged: int = 0
