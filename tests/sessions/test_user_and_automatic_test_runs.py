"""Tests that users run in a session, and those that follow changes."""

from pathlib import Path

import pytest

from hutch.domain.errors import Conflict
from hutch.domain.events import RanTests, StartedTests
from hutch.domain.ids import SessionId
from hutch.domain.session import NewSession
from hutch.flows import sessions, user_test_runs
from hutch.gateway.gateway_context import Server
from hutch.sessions.file_and_command_requests import RunCommand, StartTests, StopWatchingTests, WriteFile
from tests.sessions.session_server import owner, repository, serving, state, until

pytestmark = pytest.mark.anyio
FILES = {
    "adding.py": "def add(a, b):\n    return a - b\n",
    "test_adding.py": (
        "import unittest\nfrom adding import add\nclass Adding(unittest.TestCase):\n"
        "    def test_add(self):\n        open('made', 'w').write('x')\n"
        "        self.assertEqual(add(2, 3), 5)\n"
    ),
}
FIXED = b"def add(a, b):\n    return a + b\n"


async def session(server: Server, place: Path, files: dict[str, str] | None = None) -> SessionId:
    who = await owner(server)
    made = await sessions.create(
        server.services, who, NewSession(repository=str(repository(place, files or FILES)))
    )
    await state(server, who, made.id, "idle")
    return made.id


async def head(server: Server, id: SessionId) -> int:
    return (await server.log.head(id)).seq


async def ran(server: Server, id: SessionId, after: int) -> RanTests:
    event = (await until(server, id, "tests.run", after=after))[-1]
    assert isinstance(event, RanTests)
    return event


async def test_a_user_runs_tests_and_sees_them_compared(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        id, who = await session(server, tmp_path / "repo"), await owner(server)
        run = await user_test_runs.start(server.services, who, id, StartTests(), wait_s=60)
        assert (run.state, run.by, run.failed, run.total) == ("failed", who.user.id, 1, 1)
        await server.host.call(id, WriteFile("adding.py", FIXED), by=who.user.id)
        again = await user_test_runs.start(server.services, who, id, StartTests(failed=True), wait_s=60)
        found = await user_test_runs.compare(server.services, who, id, again.id)
        assert found.fixed == [("unittest", "test_adding.Adding.test_add")]
        assert [each.id for each in await user_test_runs.page(server.services, who, id)] == [again.id, run.id]


async def test_a_watched_run_is_repeated_after_changes_of_others_only(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        id, who = await session(server, tmp_path / "repo"), await owner(server)
        before = await head(server, id)
        await server.host.call(id, StartTests(watch=True), by=who.user.id)
        first = await ran(server, id, before)
        # The tests have made a file themselves, and that starts nothing.
        made = await until(server, id, "file.changed", after=before)
        assert made[-1].path == "made" and made[-1].source == first.test_run  # type: ignore[attr-defined]
        before = await head(server, id)
        await server.host.call(id, WriteFile("adding.py", FIXED), by=who.user.id)
        repeated = await ran(server, id, before)
        assert (first.cause, first.ok, repeated.cause, repeated.ok) == ("watch", False, "watch", True)
        assert (repeated.by, repeated.fixed) == (who.user.id, 1)
        assert await server.host.call(id, StopWatchingTests(), by=who.user.id) is True
        assert await server.host.call(id, StopWatchingTests(), by=who.user.id) is False


async def test_the_setting_runs_tests_after_each_change(tmp_path: Path) -> None:
    async with serving(tmp_path / "home", tests__auto="true") as server:
        id, who = await session(server, tmp_path / "repo"), await owner(server)
        before = await head(server, id)
        await server.host.call(id, RunCommand("sed -i 's/a - b/a + b/' adding.py"), by=who.user.id)
        events = await until(server, id, "tests.run", after=before)
        (started,) = [event for event in events if isinstance(event, StartedTests)]
        assert (started.cause, started.by) == ("auto", "hutch")
        assert isinstance(events[-1], RanTests) and events[-1].ok


async def test_parking_ends_a_test_run_and_records_it(tmp_path: Path) -> None:
    slow = {
        "test_slow.py": "import time, unittest\nclass S(unittest.TestCase):\n"
        "    def test_a(self): time.sleep(600)\n"
    }
    async with serving(tmp_path / "home") as server:
        id, who = await session(server, tmp_path / "repo", slow), await owner(server)
        before = await head(server, id)
        run = await server.host.call(id, StartTests(), by=who.user.id)
        with pytest.raises(Conflict, match=run):
            await server.host.call(id, StartTests(), by=who.user.id)
        await server.host.close(id, reason="asked")
        assert (await ran(server, id, before)).cancelled
        assert (await user_test_runs.get(server.services, who, id, run)).state == "cancelled"
