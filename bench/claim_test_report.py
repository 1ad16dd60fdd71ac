"""The time to read a report of 5,000 tests and to store each of them.

Ours removes secrets, bounds and cleans every text, describes failures, compares with the run before, and
writes a signed event besides the rows. The alternative reads the tree and inserts its attributes.
"""

import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

from bench.result_row import Row

from hutch.agent.repository_testing.runner_definition import Runner
from hutch.agent.repository_testing.session_test_runs import RequestedTests, SessionTests
from hutch.agent.repository_testing.test_results import Report
from hutch.agent.repository_testing.test_run_in_jail import read_report
from hutch.agent.repository_testing.workspace_test_suite_runs import RepositoryTests, placed
from hutch.agent.session_recorder import Recorder
from hutch.domain.events import SessionOpened
from hutch.domain.ids import new_session_id
from hutch.domain.redaction import Redactor
from hutch.store.event_log import open_log
from hutch.workspace.files.directory_listing import Page

TESTS, FAILURES, ROUNDS = 5000, 50, 5
RUNNER = Runner("pytest", ("pytest",), "pytest")
SECRETS = ["Zq7vaultvalue93kxlPmw0TtRest"]


def report() -> bytes:
    cases = []
    for number in range(TESTS):
        module = f"test_{number % 100}"
        where = f'classname="tests.{module}.TestAll" file="tests/{module}.py" line="{number}"'
        failure = (
            '<failure message="assert 1 == 2">def test():\n&gt;   assert 1 == 2\nE   assert 1 == 2</failure>'
        )
        inner = failure if number % (TESTS // FAILURES) == 0 else ""
        cases.append(f'<testcase {where} name="test_{number}[a-b]" time="0.001">{inner}</testcase>')
    return f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>".encode()


REPORT = report()


class ReadTests(RepositoryTests):
    """Tests that have run already: only their report is read."""

    async def suites(self, listed: Page | None = None) -> list[Runner]:
        return [RUNNER]

    async def run(self, *args: object, **options: object) -> Report:
        counts = await asyncio.to_thread(read_report, RUNNER.reader, REPORT, self.redactor.redact)
        return placed(Report("pytest", "pytest", counts, 1, suite="pytest"), RUNNER)


async def ours(home: Path) -> float:
    """The milliseconds to read and store a run, after another of the same tests."""
    redactor, taken = Redactor(SECRETS), []
    async with open_log(home / "hutch.db", home / "blobs", home / "signing.pem") as log:
        session_id = new_session_id()
        await log.append(session_id, [SessionOpened(purpose="bench")])
        tests = SessionTests(Recorder(log, session_id, redactor), log)
        place = ReadTests(None, None, redactor=redactor)  # type: ignore[arg-type]
        for _ in range(ROUNDS + 1):
            began = time.perf_counter()
            ended = await tests.run(place, RequestedTests())
            taken.append((time.perf_counter() - began) * 1000)
        assert ended.event.unchanged == TESTS
    return statistics.median(taken[1:])


def theirs(home: Path) -> float:
    taken = []
    with closing(sqlite3.connect(home / "plain.db")) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE cases (run, number, name, outcome, took, message, file, line)")
        for run in range(ROUNDS):
            began = time.perf_counter()
            rows = []
            for number, case in enumerate(ElementTree.fromstring(REPORT).iter("testcase")):
                fault, about = case.find("failure"), case.attrib
                name, outcome = (
                    f"{about['classname']}.{about['name']}",
                    "passed" if fault is None else "failed",
                )
                message = "" if fault is None else fault.get("message", "")
                place = about["time"], message, about["file"], about["line"]
                rows.append((run, number, name, outcome, *place))
            connection.executemany("INSERT INTO cases VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            connection.commit()
            taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as place:
        mine, plain = asyncio.run(ours(Path(place))), theirs(Path(place))
    yield Row(f"read and store {TESTS:,} tests", mine, None, "ms", 300)
    yield Row(f"read and store {TESTS:,} tests", mine, plain, "ms", 12, "xml.etree and sqlite3 executemany")
