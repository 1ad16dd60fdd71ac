"""Checks whether failing tests failed before, with the same command on the session's first snapshot."""

import re

from hutch.agent.repository_testing.session_test_runs import RequestedTests
from hutch.agent.repository_testing.test_results import Report, is_missing
from hutch.agent.tools.run_tests import run as run_tests
from hutch.domain.errors import HutchError, NotFound
from hutch.domain.events import RanTests
from hutch.flows.delivery.snapshot_test_sandbox import OpenScratch, Scratch
from hutch.flows.pull_request_text import count_tests
from hutch.jail.policy import Policy
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.workspace import Workspace

MAX_NAMES = 5
EVERYTHING = RequestedTests(cause="delivery")
# How runners without a report name failed tests: unittest, go, TAP, pytest.
FAILED_TEST = re.compile(
    r"^(?:(?:FAIL|ERROR): |--- FAIL: |not ok \d+ - |FAILED (?!\())"
    r"(?P<name>[^\n]{1,300}?)(?: \(\d[^)]*\)| - .*)?$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The tests before and after a run, and if the run broke any."""

    is_worse: bool  # a test fails that did not before, or it is unknown
    note: str
    before: str = ""  # counts of the tests on the base


async def compare_with_base(
    open_scratch: OpenScratch,
    workspace: Workspace,
    *,
    base: int,
    now: int,
    ran: RanTests | None,
    command: str = "",
    policy: Policy,
    name: str,
) -> Comparison:
    """Run the tests on two snapshots, each in its own sandbox, and compare the names of failing tests.

    `ran` is the result of the run itself: if it had no test runner, there was none before either.
    """

    async def run(snapshot: int, id: str) -> Report:
        scratch = Scratch(workspace=workspace, snapshot=snapshot, id=id, test_command=command, policy=policy)
        async with open_scratch(scratch) as context:
            return await run_tests(context, EVERYTHING)

    if ran is not None and is_missing(ran.reason):
        return Comparison(True, "")
    try:
        first = await run(base, f"before-{name}")
    except NotFound:
        return Comparison(True, "There were no tests before.")
    except HutchError as error:
        return Comparison(True, f"It is unknown whether they failed before: {error}")
    if first.ok:
        return Comparison(True, "They passed before.")
    known = _failing(first)
    if known is None:
        return Comparison(True, "They also failed before, but the report does not say which.")
    second = await run(now, f"after-{name}")
    counts = _count(first)
    failing = _failing(second)
    if failing is None or second.timed_out or second.limit:
        return Comparison(True, "The report does not say which of them fail.", counts)
    if new := sorted(failing - known):
        listed = ", ".join(new[:MAX_NAMES])
        return Comparison(True, f"These did not fail before: {listed}.", counts)
    count = len(failing)
    words = f"{count} tests fail, as they did before." if count != 1 else "1 test fails, as it did before."
    return Comparison(False, words if count else "", counts)


def _failing(report: Report) -> set[str] | None:
    """The names of the tests that failed; None when the report does not name all of them."""
    counts = report.counts
    if counts is None:
        return None
    names = {f"{case.suite}: {case.name}" for case in counts.cases if case.outcome == "failed"}
    if len(names) != counts.failed:
        names = {failure.name for failure in counts.failures}
    names = names or {found.group("name").strip() for found in FAILED_TEST.finditer(report.output)}
    return names if len(names) == counts.failed else None


def _count(report: Report) -> str:
    counts = report.counts
    return count_tests(counts.failed, counts.passed, counts.skipped) if counts else ""
