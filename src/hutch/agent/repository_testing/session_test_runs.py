"""The test runs of one session: one at a time, each in the log with every test, and as rows.

Users, the agent's tool, automatic runs and the final run before a delivery all use this.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import field
from itertools import islice
from typing import Any

from hutch.agent.repository_testing.named_python_test_selection import KnownCase
from hutch.agent.repository_testing.runner_definition import Runner
from hutch.agent.repository_testing.test_process_watcher import Stop
from hutch.agent.repository_testing.test_results import NOT_THERE, Case, Counts, Report
from hutch.agent.repository_testing.test_selection import Selection, select
from hutch.agent.repository_testing.workspace_test_suite_runs import OnProgress, RepositoryTests
from hutch.agent.session_recorder import Recorder
from hutch.agent.text_for_model import shortened, without_surrogates
from hutch.domain.current_actor_and_author import Actor, acting
from hutch.domain.errors import BadRequest, Conflict, HutchError, NotFound
from hutch.domain.events import RanTests, StartedTests
from hutch.domain.ids import new_test_run_id
from hutch.domain.recorded_test_runs import Comparison, RecordedCase, RecordedRun, compare_outcomes
from hutch.domain.test_run_events import CaseResult, SuiteResult, TestsCause
from hutch.store.table_access_interface import Rows
from hutch.store.test_runs import StoredTests
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass
from hutch.system.uncancellable_work import run_to_end

MAX_EVENT_CASES = 500  # in the log; the table has more
MAX_EVENT_CHARS = 400_000  # of all messages in one event
MESSAGE_CHARS = 2000
OUTPUT_CHARS = 4000
ALL = Selection()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedTests:
    """A request to run tests."""

    selection: Selection = ALL
    cause: TestsCause = "request"
    by: str = ""
    actor: Actor | None = None  # who is at work while they run; None: `by`
    run_id: str = ""  # of the agent's run
    call_id: str = ""
    timeout_s: float | None = None
    waits: bool = False  # for a test run that is going on; otherwise it is a conflict


@dataclass(slots=True)
class RunningTests:
    """A test run that is going on."""

    started: StartedTests
    began_ms: int
    tests: RepositoryTests
    runners: Sequence[Runner]
    requested: RequestedTests
    stop: Stop = field(default_factory=Stop)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def id(self) -> str:
        return self.started.test_run


@dataclass(frozen=True, slots=True)
class Ended:
    """A test run that has ended."""

    report: Report
    event: RanTests


class SessionTests:
    """Runs and records the tests of one session."""

    def __init__(self, recorder: Recorder, rows: Rows) -> None:
        self.on_progress: Callable[[str, str], None] | None = None  # gets the test run, and what it does
        self.current: RunningTests | None = None
        self._recorder = recorder
        self._stored = StoredTests(rows)
        self._lock = asyncio.Lock()

    async def run(self, tests: RepositoryTests, requested: RequestedTests) -> Ended:
        """Run tests and record them. Raises when there are none, or when the selection does not fit."""
        return await self.finish(await self.begin(tests, requested))

    async def begin(self, tests: RepositoryTests, requested: RequestedTests) -> RunningTests:
        """Choose the tests and record their start. `finish` must follow."""
        if self._lock.locked() and not requested.waits:
            now = f" ({self.current.id})" if self.current else ""
            raise Conflict(f"Tests are running in this session{now}. Wait for them, or cancel them.")
        await self._lock.acquire()
        try:
            runners = select(
                await tests.suites(), requested.selection, await self._known(requested.selection)
            )
            await tests.check_files(requested.selection.files)
            running = RunningTests(self._started(runners, requested), wall_ms(), tests, runners, requested)
            row = RecordedRun.begin(running.started, self._recorder.session_id, running.began_ms)
            await self._recorder.append([running.started], also=self._stored.adding(row))
            self.current = running
            return running
        except BaseException:
            self._lock.release()
            raise

    async def finish(self, running: RunningTests) -> Ended:
        """Run the tests to their end, which is recorded also if the caller is cancelled."""
        requested = running.requested
        report: Report | None = None
        problem, cancelled = "The test run was cancelled.", True
        try:
            actor = requested.actor or Actor(requested.by, "command", running.id, requested.call_id)
            with running.tests.working(actor), acting(actor):
                report = await running.tests.run(
                    running.runners,
                    timeout_s=requested.timeout_s,
                    stop=running.stop,
                    on_progress=self._reporter(running.id),
                )
        except HutchError as error:
            problem, cancelled = self._clean(str(error)), False
            if isinstance(error, NotFound):  # the runner is missing
                problem = f"{problem} {NOT_THERE}"
            raise
        finally:
            try:
                event = await run_to_end(self._record(running, report, problem, cancelled=cancelled))
            finally:
                self.current = None
                running.ended.set()
                self._lock.release()
        return Ended(report, event)

    def stop(self, id: str) -> None:
        """Stop a test run that is going on; its results so far are recorded."""
        if self.current is None or self.current.id != id:
            raise Conflict(f"The test run {id} is not going on.")
        self.current.stop.set()

    def _reporter(self, id: str) -> OnProgress | None:
        report = self.on_progress
        return (lambda line: report(id, line)) if report is not None else None

    def _started(self, runners: Sequence[Runner], requested: RequestedTests) -> StartedTests:
        clean, chosen = self._clean, requested.selection
        return StartedTests(
            test_run=new_test_run_id(),
            command=clean("; ".join(map(str, runners))),
            suites=tuple(clean(runner.suite) for runner in runners),
            files=tuple(map(clean, chosen.files)),
            tests=tuple(map(clean, chosen.tests)),
            failed_only=chosen.failed,
            cause=requested.cause,
            by=requested.by,
            run_id=requested.run_id,
            call_id=requested.call_id,
        )

    async def _known(self, selection: Selection) -> list[KnownCase]:
        """The tests of the last runs that a selection means."""
        session_id = self._recorder.session_id
        if selection.failed:
            cases = await self._stored.failed_in_last_run(session_id)
            if cases is None:
                raise BadRequest("No tests have run in this session yet. Run all of them first.")
            if not cases:
                raise BadRequest("No test failed in the last run.")
        elif selection.tests:
            cases = await self._stored.named(session_id, selection.tests)
            if not set(selection.tests) <= {name for case in cases for name in (case.name, case.selector)}:
                return []  # the runner may know them
        else:
            return []
        return [KnownCase(case.suite, case.name, case.file, case.selector) for case in cases]

    async def _record(
        self, running: RunningTests, report: Report | None, problem: str, *, cancelled: bool
    ) -> RanTests:
        started, counts = running.started, (report.counts if report else None) or Counts()
        cases = [self._row(case) for case in counts.cases]
        compared = await self._compare(running, cases)
        event = RanTests(
            **self._facts(report, started, problem=problem, cancelled=cancelled),
            run_id=started.run_id,
            test_run=started.test_run,
            partial=not running.requested.selection.is_all,
            cause=started.cause,
            by=started.by,
            cases=tuple(_in_event(cases)),
            omitted_cases=max(0, counts.total - min(len(cases), MAX_EVENT_CASES)),
            compared_with=compared.old if compared else "",
            fixed=len(compared.fixed) if compared else 0,
            broke=len(compared.broke) if compared else 0,
            unchanged=compared.unchanged if compared else 0,
        )
        row = RecordedRun.end(started, event, self._recorder.session_id, running.began_ms, wall_ms())
        await self._recorder.append([event], also=self._stored.ending(row, cases))
        return event

    def _facts(
        self, report: Report | None, started: StartedTests, *, problem: str, cancelled: bool
    ) -> dict[str, Any]:
        if report is None:
            nothing = {"passed": 0, "failed": 0, "skipped": 0, "total": 0, "command": started.command}
            return {**nothing, "ok": False, "reason": problem, "cancelled": cancelled}
        output = "" if report.ok else shortened(report.output.strip(), OUTPUT_CHARS, head=0.2)
        parts = report.parts or (report,)
        facts = {**report.data(), "cancelled": report.stopped == "cancelled", "output": self._clean(output)}
        facts["suites"] = tuple(SuiteResult(name=part.suite, **_suite_facts(part)) for part in parts)
        return {**facts, "command": started.command, "reason": self._clean(report.reason)}

    async def _compare(self, running: RunningTests, cases: Sequence[RecordedCase]) -> Comparison | None:
        """Compare with the last run before this one that has tests in common."""
        before = await self._stored.last_outcomes(self._recorder.session_id, before=running.id)
        if before is None:
            return None
        now = {(case.suite, case.name): case.outcome for case in cases}
        compared = compare_outcomes(before.id, before.outcomes, running.id, now)
        return compared if compared.common else None

    def _row(self, case: Case) -> RecordedCase:
        return RecordedCase(
            suite=case.suite,
            name=without_surrogates(case.name),
            outcome=case.outcome,
            duration_s=round(case.duration_s, 6),
            message=without_surrogates(shortened(case.message.strip(), MESSAGE_CHARS, head=0.7)),
            file=without_surrogates(case.file),
            line=case.line,
            selector=without_surrogates(case.selector),
        )

    def _clean(self, text: str) -> str:
        return self._recorder.redactor.redact(without_surrogates(text))


def _suite_facts(report: Report) -> dict[str, Any]:
    return {name: value for name, value in report.data().items() if name not in ("total", "limit")}


def _in_event(cases: Sequence[RecordedCase]) -> list[CaseResult]:
    """The tests that the log lists: failed ones first, with messages up to a total size."""
    first = sorted(cases, key=lambda case: case.outcome != "failed")
    left, listed = MAX_EVENT_CHARS, []
    for case in islice(first, MAX_EVENT_CASES):
        message = case.message if len(case.message) <= left else ""
        left -= len(message)
        fields: dict[str, Any] = {**case._asdict(), "message": message}
        del fields["selector"]
        listed.append(CaseResult.model_construct(**fields))
    return listed
