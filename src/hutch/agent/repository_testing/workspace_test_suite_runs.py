"""The tests of one workspace: which suites there are, and a run of some or all of them."""

import asyncio
import posixpath
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import field, replace

from hutch.agent.repository_testing.go_test_file_paths import with_go_directories
from hutch.agent.repository_testing.parsed_result_tally import MAX_CASES
from hutch.agent.repository_testing.runner_definition import Runner
from hutch.agent.repository_testing.runner_detection import NO_TESTS, detect_all
from hutch.agent.repository_testing.services_for_tests import TestServices
from hutch.agent.repository_testing.test_process_watcher import Stop
from hutch.agent.repository_testing.test_results import Report, combine
from hutch.agent.repository_testing.test_run_in_jail import run_tests
from hutch.agent.text_for_model import strip_escapes
from hutch.domain.current_actor_and_author import Actor, acting
from hutch.domain.errors import BadRequest, Denied, NotFound
from hutch.domain.one_line_text import echo
from hutch.domain.redaction import Redactor
from hutch.jail.interface import Jail
from hutch.jail.policy import MAX_TIMEOUT_S
from hutch.system.lazy_dataclass import dataclass
from hutch.system.terminal_safe_text import printable
from hutch.workspace.files.directory_listing import Page
from hutch.workspace.workspace import Workspace

MAX_PATHS = 5000  # that are searched for test files
MIN_TIMEOUT_S = 1.0  # of a suite, after others have used up the time
NOT_STARTED = 127
OnProgress = Callable[[str], None]  # called with a line that says what runs now
Working = Callable[[Actor], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteOptions:
    """How a repository is tested; the fields are those of the settings."""

    command: str | None = None  # None: detect the runners
    report: str | None = None  # a pattern of report files that the command writes
    timeout_s: float | None = None  # None: that of the `test` profile
    silence_s: float | None = None  # without output; None is no limit
    memory_bytes: int | None = None  # None: that of the `test` profile
    auto: bool = False  # run them after each change
    services: TestServices | None = None  # must be up before they run
    refusal: str = ""  # why the command may not be run; empty if it may

    def with_command(self, command: str) -> "SuiteOptions":
        """The same with another command, unless it is empty. The report is that of the own command."""
        return replace(self, command=command, report=None) if command else self


DEFAULT_OPTIONS = SuiteOptions()


async def list_files(workspace: Workspace) -> Page:
    """The files of a workspace that git does not ignore, or the first of them."""
    return await workspace.entries(recursive=True, ignores=True, limit=MAX_PATHS)


@dataclass(frozen=True, slots=True)
class RepositoryTests:
    """Finds and runs the tests of a workspace in its jail."""

    workspace: Workspace
    jail: Jail
    options: SuiteOptions = DEFAULT_OPTIONS
    redactor: Redactor = field(default_factory=Redactor)
    working: Working = acting  # notes that the current actor's programs may change files

    async def suites(self, listed: Page | None = None) -> list[Runner]:
        """Every suite of the workspace; raises when there is none, or when the command is refused.

        `listed` are the files below its root, if the caller has listed them already.
        """
        if self.options.refusal:
            raise Denied(self.options.refusal)
        report = self.options.report
        if report and (report.startswith(("/", "~")) or ".." in report.split("/")):
            raise BadRequest(
                f"tests.report is {echo(report, 200)}, which is no path in the workspace. Name files below "
                "its root, such as 'reports/**/*.xml'."
            )
        page = listed or await list_files(self.workspace)
        top = await self.workspace.entries(limit=MAX_PATHS)
        entries = [*top.entries, *page.entries]
        names = list(dict.fromkeys(entry.path for entry in entries))
        options = self.options
        found = await asyncio.to_thread(
            lambda: list(detect_all(self._read, names, command=options.command, report=options.report or ""))
        )
        if not found:
            raise NotFound(NO_TESTS)
        return found

    async def run(
        self,
        runners: Sequence[Runner],
        *,
        timeout_s: float | None = None,
        stop: Stop | None = None,
        on_progress: OnProgress | None = None,
    ) -> Report:
        """Run suites after each other; together they may take `timeout_s`.

        A caller who sets a timeout waits in silence too.
        """
        limit_s = timeout_s or self.options.timeout_s or MAX_TIMEOUT_S
        until, stop = time.monotonic() + limit_s, Stop() if stop is None else stop
        reports: list[Report] = []
        if self.options.services is not None:
            await self.options.services.ensure(self.jail, is_stopped=lambda: bool(stop))
        for number, runner in enumerate(runners, start=1):
            label = f"{runner.suite} ({number} of {len(runners)})" if len(runners) > 1 else runner.suite
            try:
                report = await run_tests(
                    self.jail,
                    runner,
                    timeout_s=min(max(until - time.monotonic(), MIN_TIMEOUT_S), MAX_TIMEOUT_S),
                    silence_s=None if timeout_s else self.options.silence_s,
                    memory_bytes=self.options.memory_bytes,
                    clean=self.redactor.redact,
                    on_line=self._reporter(label, on_progress),
                    stop=stop,
                )
            except NotFound as error:
                if len(runners) == 1:
                    raise
                report = _not_started(runner, self.redactor.redact(str(error)))
            if runner.reader == "go" and report.counts is not None:
                go_mod = self._read("/".join(filter(None, [runner.directory, "go.mod"])))
                report = replace(report, counts=with_go_directories(report.counts, go_mod or b""))
            reports.append(placed(report, runner))
            if stop or report.timed_out:
                break
        if all(report.exit_code == NOT_STARTED and not report.output for report in reports):
            raise NotFound(reports[0].error)
        return combine(reports)

    async def check_files(self, files: Sequence[str]) -> None:
        """Refuse files that do not exist; `file.py::name` is a test in one."""
        for file in files:
            path = file.partition("::")[0]
            try:
                await self.workspace.stat(path)
            except NotFound:
                raise NotFound(f"There is no file '{path}' in the workspace.") from None

    def _reporter(self, label: str, on_progress: OnProgress | None) -> Callable[[bytes], None] | None:
        if on_progress is None:
            return None

        def report(line: bytes) -> None:
            text = printable(self.redactor.redact(strip_escapes(line.decode(errors="replace"))).strip())
            on_progress(f"{label}: {text}")

        return report

    def _read(self, path: str) -> bytes | None:
        try:
            return self.workspace.files.read_bytes(path)[0]
        except (NotFound, Denied, BadRequest):
            return None


def _not_started(runner: Runner, error: str) -> Report:
    return Report(
        runner=runner.name,
        command=str(runner),
        counts=None,
        exit_code=NOT_STARTED,
        always_counts=True,
        error=error,
        suite=runner.suite,
    )


def placed(report: Report, runner: Runner) -> Report:
    """The report with the suite of each test, and with paths from the root of the workspace."""
    if report.counts is None:
        return report
    seen: dict[str, int] = {}
    cases = []
    for case in report.counts.cases[:MAX_CASES]:
        count = seen[case.name] = seen.get(case.name, 0) + 1
        name = case.name if count == 1 else f"{case.name} ({count})"
        file = case.file
        if file and runner.directory and not file.startswith(f"{runner.directory}/"):
            file = f"{runner.directory}/{file}"
        file = _inside(file) if file else ""
        line = case.line if file else 0
        cases.append(case._replace(name=name, file=file, line=line, suite=runner.suite))
    return replace(report, counts=replace(report.counts, cases=tuple(cases)))


def _inside(file: str) -> str:
    """The path of a file of the workspace; empty if it leads out."""
    path = posixpath.normpath(file)
    return "" if path.startswith(("/", "../")) or path == ".." else path
