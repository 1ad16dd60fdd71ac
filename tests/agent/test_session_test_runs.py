"""Test runs of a session: real runners in a real jail, in a real log and as rows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hutch.agent.repository_testing.session_test_runs import (
    MAX_EVENT_CASES,
    Ended,
    RequestedTests,
    SessionTests,
)
from hutch.agent.repository_testing.test_selection import Selection
from hutch.agent.repository_testing.workspace_test_suite_runs import RepositoryTests, SuiteOptions
from hutch.agent.run_setup import RunSetup
from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.domain.events import RanTests, StartedTests
from hutch.domain.redaction import Redactor
from hutch.store.test_runs import StoredTests
from tests.agent.run_setups import SetupOptions, entries, open_setup
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio
ADDING = {
    "adding.py": b"def add(a, b):\n    return a - b\n",
    "test_adding.py": (
        b"import unittest\nfrom adding import add\nclass Adding(unittest.TestCase):\n"
        b"    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n"
        b"    def test_zero(self):\n        self.assertEqual(add(0, 0), 0)\n"
    ),
}
SLOW = {
    "test_slow.py": (
        b"import time, unittest\nclass Slow(unittest.TestCase):\n    def test_a(self): pass\n"
        b"    def test_b(self): print('waiting', flush=True); time.sleep(600)\n"
    )
}
REPORTER = {
    "check.sh": b"mkdir -p out/deep\nfor n in 1 2; do\n"
    b"echo \"<s><testcase name='t$n' file='a.c' line='$n'/></s>\""
    b" > out/deep/$n.xml; done\n"
}


@dataclass
class Session:
    """The tests of one session."""

    setup: RunSetup
    tests: SessionTests
    stored: StoredTests
    options: SuiteOptions = field(default_factory=SuiteOptions)

    @property
    def repository(self) -> RepositoryTests:
        context = self.setup.context
        return RepositoryTests(context.workspace, context.jail, self.options, self.setup.redactor)

    async def run(self, selection: Selection | None = None) -> Ended:
        asked = RequestedTests(selection=selection or Selection(), by="usr_1")
        return await self.tests.run(self.repository, asked)

    async def write(self, path: str, text: bytes) -> None:
        await self.setup.context.workspace.write(path, text)

    async def events(self) -> list[StartedTests | RanTests]:
        log = [entry.event for entry in await entries(self.setup.recorder)]
        return [event for event in log if isinstance(event, StartedTests | RanTests)]


@asynccontextmanager
async def opened(home: Path, files: dict[str, bytes], **options: object) -> AsyncIterator[Session]:
    async with open_setup(home, SetupOptions(files, "replies: []")) as setup:
        assert setup.context.tests is not None
        stored = StoredTests(setup.recorder.log)  # type: ignore[arg-type]
        yield Session(setup, setup.context.tests, stored, SuiteOptions(**options))  # type: ignore[arg-type]


async def test_a_run_is_in_the_log_and_in_rows_with_every_test(tmp_path: Path) -> None:
    async with opened(tmp_path, ADDING) as here:
        ended = await here.run()
        started, ran = await here.events()
        row = await here.stored.get(here.setup.recorder.session_id, "last")
        cases = [case for _, case in await here.stored.cases(row)]
    assert isinstance(started, StartedTests) and isinstance(ran, RanTests)
    assert (started.by, started.cause, started.command) == ("usr_1", "request", "python3 -m unittest")
    assert (ran.test_run, ran.ok, ran.total, ran.failed) == (started.test_run, False, 2, 1)
    assert [(case.name, case.outcome, case.file, case.line) for case in ran.cases] == [
        ("test_adding.Adding.test_add", "failed", "test_adding.py", 5),
        ("test_adding.Adding.test_zero", "passed", "test_adding.py", 6),
    ]
    assert ran.cases[0].message.startswith("AssertionError: -1 != 5")
    assert (row.id, row.state, row.total, row.stored) == (started.test_run, "failed", 2, 2)
    assert [(case.name, case.outcome) for case in cases] == [
        ("test_adding.Adding.test_add", "failed"),
        ("test_adding.Adding.test_zero", "passed"),
    ]
    assert ended.report.failing == "1 test fails: test_adding.Adding.test_add."


async def test_runs_are_compared_and_failed_tests_run_alone(tmp_path: Path) -> None:
    async with opened(tmp_path, ADDING) as here:
        with pytest.raises(BadRequest, match="No tests have run"):
            await here.run(Selection(failed=True))
        await here.run()
        again = await here.run(Selection(failed=True))
        await here.write("adding.py", b"def add(a, b):\n    return a + b or 1\n")
        last = await here.run()
        none = await here.stored.failed_in_last_run(here.setup.recorder.session_id)
        history = await here.stored.history(
            here.setup.recorder.session_id, "", "test_adding.Adding.test_add", limit=10
        )
    assert [case.name for case in again.event.cases] == ["test_adding.Adding.test_add"]
    assert (again.event.partial, again.event.unchanged, again.event.compared_with != "") == (True, 1, True)
    assert (last.event.fixed, last.event.broke, last.event.unchanged) == (1, 1, 0)
    assert none is not None and [case.name for case in none] == ["test_adding.Adding.test_zero"]
    assert [past.outcome for past in history] == ["passed", "failed", "failed"]


async def test_a_test_is_selected_by_the_name_in_results(tmp_path: Path) -> None:
    async with opened(tmp_path, ADDING) as here:
        await here.run()
        one = await here.run(Selection(tests=("test_adding.Adding.test_zero",)))
        with pytest.raises(NotFound, match=r"There is no file 'none\.py'"):
            await here.run(Selection(files=("none.py",)))
        file = await here.run(Selection(files=("test_adding.py",)))
    assert [case.name for case in one.event.cases] == ["test_adding.Adding.test_zero"]
    assert file.event.total == 2


async def test_suites_run_after_each_other_and_are_reported_together(tmp_path: Path) -> None:
    below = {f"libs/{name}/{file}": text for name in "ab" for file, text in ADDING.items()}
    below |= {f"libs/{name}/setup.py": b"" for name in "ab"}
    async with opened(tmp_path, below) as here:
        await here.write("libs/b/adding.py", b"def add(a, b):\n    return a + b\n")
        ended = await here.run()
        failed = await here.run(Selection(failed=True))
    event = ended.event
    assert [(suite.name, suite.ok, suite.passed, suite.failed) for suite in event.suites] == [
        ("unittest in libs/a", False, 1, 1),
        ("unittest in libs/b", True, 2, 0),
    ]
    assert (event.ok, event.total, event.cases[0].file) == (False, 4, "libs/a/test_adding.py")
    assert [suite.name for suite in failed.event.suites] == ["unittest in libs/a"]
    assert "unittest in libs/b: 2 passed" in ended.report.text()


async def test_a_suite_without_its_runner_is_named_and_does_not_decide(tmp_path: Path) -> None:
    files = {**ADDING, "package.json": b'{"devDependencies": {"jest": "1"}}'}
    files["adding.py"] = b"def add(a, b):\n    return a + b\n"
    async with opened(tmp_path, files) as here:
        ended = await here.run()
    assert ended.event.ok
    assert [(suite.name, suite.ok) for suite in ended.event.suites] == [("Jest", False), ("unittest", True)]
    assert "Jest: The tests cannot be run: Jest is not in the jail" in ended.event.reason


async def test_a_missing_program_is_recorded_with_a_remedy(tmp_path: Path) -> None:
    async with opened(tmp_path, {"Cargo.toml": b""}) as here:
        with pytest.raises(NotFound, match="cargo is needed to run these tests"):
            await here.run()
        _, ran = await here.events()
        state = (await here.stored.get(here.setup.recorder.session_id, "last")).state
    assert isinstance(ran, RanTests)
    assert (ran.ok, ran.cancelled, state) == (False, False, "failed")
    assert ran.reason.endswith("set tests.command in .hutch/config.toml.")


async def test_a_stopped_run_keeps_what_it_reported(tmp_path: Path) -> None:
    async with opened(tmp_path, SLOW) as here:
        waiting = asyncio.Event()
        here.tests.on_progress = lambda id, line: waiting.set() if "waiting" in line else None
        running = await here.tests.begin(here.repository, RequestedTests(by="usr_1"))
        with pytest.raises(Conflict, match=running.id):
            await here.tests.begin(here.repository, RequestedTests(by="usr_2"))
        task = asyncio.ensure_future(here.tests.finish(running))
        async with asyncio.timeout(DEADLINE_S):
            await waiting.wait()
            here.tests.stop(running.id)
            ended = await task
        with pytest.raises(Conflict):
            here.tests.stop(running.id)
        row = await here.stored.get(here.setup.recorder.session_id, running.id)
    assert (ended.event.cancelled, ended.event.ok, ended.event.passed) == (True, False, 1)
    assert [case.name for case in ended.event.cases] == ["test_slow.Slow.test_a"]
    assert (row.state, row.total) == ("cancelled", 1)


async def test_a_cancelled_caller_leaves_an_end_in_the_log(tmp_path: Path) -> None:
    async with opened(tmp_path, SLOW) as here:
        waiting = asyncio.Event()
        here.tests.on_progress = lambda id, line: waiting.set() if "waiting" in line else None
        task = asyncio.ensure_future(here.run())
        async with asyncio.timeout(DEADLINE_S):
            await waiting.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        _, ran = await here.events()
        assert isinstance(ran, RanTests) and ran.cancelled
        assert here.tests.current is None
        here.options = SuiteOptions(command="true")
        assert (await here.run()).event.ok


async def test_silence_stops_tests_and_is_named(tmp_path: Path) -> None:
    command = "printf 'TAP version 13\\n1..2\\nok 1 - a\\n'; sleep 600"  # a shell prints sooner than Python
    async with opened(tmp_path, ADDING, command=command, silence_s=5) as here:
        ended = await here.run()
    assert (ended.event.limit, ended.event.ok, ended.event.passed) == ("tests.silence_s", False, 1)
    assert "printed nothing for too long" in ended.event.reason


async def test_output_keeps_tests_alive(tmp_path: Path) -> None:
    command = "for i in 1 2 3 4 5 6; do echo $i; sleep 1; done"
    async with opened(tmp_path, ADDING, command=command, silence_s=5) as here:
        assert (await here.run()).event.ok


async def test_reports_of_a_pattern_are_read(tmp_path: Path) -> None:
    old = {"out/old.xml": b"<s><testcase name='old'/></s>"}
    async with opened(tmp_path, {**REPORTER, **old}, command="sh check.sh", report="out/**/*.xml") as here:
        ended = await here.run()
    assert (ended.event.ok, ended.event.total) == (True, 2)  # not the old one
    assert [(case.name, case.file, case.line) for case in ended.event.cases] == [
        ("t1", "a.c", 1),
        ("t2", "a.c", 2),
    ]


@pytest.mark.parametrize(
    "trick",
    [
        "mkdir out; ln -s /etc/passwd out/a.xml",
        "mkdir out; mkfifo out/a.xml",
        "mkdir out; echo '<!DOCTYPE s []><s/>' > out/a.xml",
        "mkdir out; head -c 40000000 /dev/zero > out/a.xml",
        "true",
    ],
)
async def test_a_command_without_a_readable_report_has_not_passed(tmp_path: Path, trick: str) -> None:
    async with opened(tmp_path, ADDING, command=trick, report="out/*.xml") as here:
        ended = await here.run()
    assert not ended.event.ok and ended.event.total == 0


async def test_tap_and_go_reports_of_any_command(tmp_path: Path) -> None:
    tap = "printf 'TAP version 13\\n1..2\\nok 1 - a\\nnot ok 2 - b\\n'; exit 1"
    async with opened(tmp_path, ADDING, command=tap) as here:
        ended = await here.run()
        assert [(case.name, case.outcome) for case in ended.event.cases] == [("b", "failed"), ("a", "passed")]
        here.options = SuiteOptions(command='echo \'{"Action":"pass","Package":"p","Test":"TestA"}\'')
        ended = await here.run()
        assert [case.name for case in ended.event.cases] == ["p.TestA"]


async def test_a_secret_that_a_report_encodes_is_removed(tmp_path: Path) -> None:
    secret = "hunter2-hunter2-hunter2"
    encoded = "".join(f"&#{ord(letter)};" for letter in secret)
    xml = f'<s><testcase name="{encoded}"><failure message="{encoded}"/></testcase></s>'
    async with opened(tmp_path, {"r.xml": xml.encode()}, command="touch r.xml", report="r.xml") as here:
        here.setup.recorder.redactor = Redactor([secret])
        context = here.setup.context
        tests = RepositoryTests(context.workspace, context.jail, here.options, Redactor([secret]))
        ended = await here.tests.run(tests, RequestedTests(by="usr_1"))
        rows = await here.stored.cases(await here.stored.get(here.setup.recorder.session_id, "last"))
    assert ended.event.failed == 1
    assert secret not in str(ended.event) and secret not in str(rows)


async def test_a_large_run_lists_some_tests_in_the_log_and_all_in_rows(tmp_path: Path) -> None:
    make = "for i in $(seq 3000); do echo \"<testcase name='t$i'/>\"; done"
    command = f"(echo '<s>'; {make}; echo \"<testcase name='bad'><failure/></testcase></s>\") > r.xml; exit 1"
    async with opened(tmp_path, ADDING, command=command, report="r.xml") as here:
        event = (await here.run()).event
        row = await here.stored.get(here.setup.recorder.session_id, "last")
        page = await here.stored.cases(row, after=2998, limit=10)
    assert (len(event.cases), event.omitted_cases, event.total) == (
        MAX_EVENT_CASES,
        3001 - MAX_EVENT_CASES,
        3001,
    )
    assert event.cases[0].name == "bad"
    assert row.stored == 3001
    assert [(number, case.name) for number, case in page] == [(2998, "t2999"), (2999, "t3000"), (3000, "bad")]
