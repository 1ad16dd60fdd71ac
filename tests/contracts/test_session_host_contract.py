"""The contract of every session host, tested through its interface alone.

Sessions are created as rows and a log; a host is notified, and does the rest. A host on another
machine is one more entry in HOSTS.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from hutch.domain import inputs
from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.domain.events import Entry
from hutch.domain.ids import SessionId
from hutch.domain.log_entry_audience import WHOLE
from hutch.domain.session import NewSession
from hutch.domain.user import Caller
from hutch.flows import session_option_changes, sessions
from hutch.flows.flow_services import Services
from hutch.flows.session_option_changes import SessionChange
from hutch.sessions import file_and_command_requests as requests
from hutch.sessions.interface import Delta, SessionHost
from hutch.store.sessions import Sessions
from tests.deadline import DEADLINE_S
from tests.sessions.host_message_codec import CodecHost
from tests.sessions.session_server import call, cassette, owner, serving, state, until

pytestmark = pytest.mark.anyio
HOSTS = ("in this process", "through bytes")
WRITE = call("write_file", path="a.txt", content="one\n")
FINISH = call("finish", title="Done", summary="So.")
SERVE = (
    'python3 -c "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=8111)" > /dev/null 2>&1 &'
)


@dataclass
class Hosted:
    """A session host, and the flows that send requests to it."""

    host: SessionHost
    services: Services
    caller: Caller
    server: object
    place: Path

    async def new(self, *replies: dict[str, object], prompt: str = "") -> SessionId:
        model = cassette(self.place / "c.json", replies) if replies else ""
        new = NewSession(purpose="a session", model=model, prompt=prompt)
        return (await sessions.create(self.services, self.caller, new)).id

    async def ready(self) -> SessionId:
        id = await self.new()
        await self.reaches(id, "idle", "parked")
        return id

    async def reaches(self, id: SessionId, *states: str) -> str:
        return await state(self.server, self.caller, id, *states)  # type: ignore[arg-type]

    async def types(self, id: SessionId, last: str) -> list[str]:
        return [event.type for event in await until(self.server, id, last)]  # type: ignore[arg-type]


@asynccontextmanager
async def hosting(kind: str, place: Path) -> AsyncIterator[Hosted]:
    async with serving(place / "home") as server:
        host: SessionHost = server.host if kind == "in this process" else CodecHost(server.host)
        yield Hosted(host, server.services, await owner(server), server, place)


@pytest.fixture(params=HOSTS)
async def hosted(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Hosted]:
    async with hosting(request.param, tmp_path) as found:
        yield found


async def test_what_is_asked_of_its_files_is_answered_and_kept(hosted: Hosted) -> None:
    id = await hosted.ready()
    await hosted.host.call(id, requests.WriteFile("a.txt", b"one\n"))
    assert (await hosted.host.call(id, requests.ReadFile("a.txt"))).data == b"one\n"
    taken = await hosted.host.call(id, requests.TakeSnapshot("by hand"))
    await hosted.host.call(id, requests.WriteFile("a.txt", b"two\n"))
    await hosted.host.call(id, requests.RestoreSnapshot(taken.id))
    assert (await hosted.host.call(id, requests.ReadFile("a.txt"))).data == b"one\n"


async def test_a_session_that_was_closed_is_woken_by_the_next_use_with_its_files(hosted: Hosted) -> None:
    id = await hosted.ready()
    await hosted.host.call(id, requests.WriteFile("a.txt", b"one\n"))
    await hosted.host.close(id, reason="for the test")
    await hosted.reaches(id, "parked")
    await hosted.host.close(id, reason="and again")  # of one that is closed: nothing
    await hosted.host.open(id)
    assert await hosted.reaches(id, "idle") == "idle"
    assert (await hosted.host.call(id, requests.ReadFile("a.txt"))).data == b"one\n"
    assert {"session.parked", "session.woken"} <= set(await hosted.types(id, "session.woken"))


async def test_changed_limits_reach_the_open_jail_and_wait_for_no_closed_one(hosted: Hosted) -> None:
    id = await hosted.ready()
    await hosted.host.open(id)
    less = SessionChange(resources={"command_timeout_s": 1})
    await session_option_changes.change(hosted.services, hosted.caller, id, less)
    assert list(await hosted.host.apply_changes(id)) == []
    ran = await hosted.host.call(id, requests.RunCommand("sleep 30"))
    assert ran.timed_out
    await hosted.host.close(id, reason="for the test")
    assert list(await hosted.host.apply_changes(id)) == []
    assert await hosted.reaches(id, "parked") == "parked"


async def test_the_workspace_of_a_session_that_is_over_is_deleted(hosted: Hosted) -> None:
    id = await hosted.ready()
    workspace_id = (await Sessions(hosted.services.rows).get(id)).workspace_id
    await hosted.host.open(id)
    with pytest.raises(Conflict):
        await hosted.host.remove_workspace(workspace_id)  # its jail is open
    await sessions.give(hosted.services, hosted.caller, id, inputs.End())
    await hosted.reaches(id, "ended")
    await hosted.host.close(id, reason="for the test")
    await hosted.host.remove_workspace(workspace_id)
    with pytest.raises(NotFound):
        await hosted.host.remove_workspace(workspace_id)


async def test_commands_run_in_the_jail_and_report_how_they_ended(hosted: Hosted) -> None:
    id = await hosted.ready()
    ran = await hosted.host.call(id, requests.RunCommand("echo out; exit 3"))
    assert ran.exit_code == 3
    assert "command.ended" in await hosted.types(id, "command.ended")


async def test_tests_run_in_the_jail_and_are_in_the_log(hosted: Hosted) -> None:
    id = await hosted.ready()
    await hosted.host.call(id, requests.WriteFile("test_a.py", b"import unittest\n"))
    run = await hosted.host.call(id, requests.StartTests())
    await hosted.host.call(id, requests.WaitForTests(run, 60.0))
    assert "tests.run" in await hosted.types(id, "tests.run")
    with pytest.raises(Conflict, match=run):
        await hosted.host.call(id, requests.CancelTests(run))


async def test_an_input_that_was_kept_is_taken_and_what_comes_of_it_is_in_the_log(hosted: Hosted) -> None:
    id = await hosted.new(WRITE, FINISH, prompt="Write it.")
    assert "tool.returned" in await hosted.types(id, "run.ended")
    await hosted.reaches(id, "idle")
    given = await sessions.give(hosted.services, hosted.caller, id, inputs.End(reason="over"))
    await hosted.reaches(id, "ended")
    assert (await hosted.types(id, "session.ended"))[-1] == "session.ended"
    assert given.seq == 1
    assert (await hosted.host.call(id, requests.ReadFile("a.txt"))).data == b"one\n"  # reading still works
    with pytest.raises(Conflict, match="has ended"):
        await hosted.host.call(id, requests.WriteFile("a.txt", b"two\n"))


async def test_a_follower_gets_every_entry_once_and_deltas_among_them(hosted: Hosted) -> None:
    id = await hosted.new({"text": "I write it now."}, WRITE, FINISH, prompt="Write it.")
    seen: list[int] = []
    pieces: list[str] = []
    async with asyncio.timeout(DEADLINE_S), aclosing(hosted.host.follow(id, WHOLE)) as updates:
        async for update in updates:
            match update:
                case Entry():
                    seen.append(update.seq)
                    if update.event.type == "run.ended":
                        break
                case Delta():
                    pieces.append(update.text)
    assert seen == list(range(1, len(seen) + 1))
    later: list[int] = []
    async with (
        asyncio.timeout(DEADLINE_S),
        aclosing(hosted.host.follow(id, WHOLE, after=seen[-3])) as updates,
    ):
        async for update in updates:
            if isinstance(update, Entry):
                later.append(update.seq)
                if update.seq == seen[-1]:
                    break
    assert later == seen[-2:]
    assert all(pieces)


async def test_a_terminal_is_watched_from_any_byte_on_and_written_to(hosted: Hosted) -> None:
    id = await hosted.ready()
    opened = await hosted.host.call(id, requests.OpenTerminal())
    shown = b""
    async with asyncio.timeout(DEADLINE_S), hosted.host.terminal(id, opened.id) as viewer:
        await viewer.write(b"echo hel''lo\n")
        async for _, data in viewer:
            shown += data
            viewer.acknowledge(len(data))
            if b"hello" in shown:  # what was typed reads otherwise
                break
    async with asyncio.timeout(DEADLINE_S), hosted.host.terminal(id, opened.id, resume=5) as again:
        assert again.seq == 5
        async for _, data in again:
            assert shown[5:].startswith(data[: len(shown) - 5])
            break
    with pytest.raises(NotFound):
        async with hosted.host.terminal(id, "trm_none"):
            raise AssertionError


async def test_a_port_of_the_jail_is_reached_and_one_that_nobody_listens_on_is_not(hosted: Hosted) -> None:
    id = await hosted.ready()
    await hosted.host.call(id, requests.WriteFile("page.txt", b"a page\n"))
    await hosted.host.call(id, requests.RunCommand(SERVE))
    answered = b""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                stream = await hosted.host.connect(id, 8111)
                break
            except (NotFound, Conflict):
                await asyncio.sleep(0.05)
        await stream.write(b"GET /page.txt HTTP/1.0\r\n\r\n")
        while data := await stream.read():
            answered += data
        stream.close()
    assert answered.endswith(b"a page\n")
    with pytest.raises(NotFound):
        await hosted.host.connect(id, 8112)
    for port in (0, 65536):
        with pytest.raises(BadRequest, match="not a port"):
            await hosted.host.connect(id, port)


async def test_a_session_that_nobody_made_does_not_exist(hosted: Hosted) -> None:
    nobody = SessionId("ses_00000000000000000000000000")
    with pytest.raises(NotFound):
        await hosted.host.call(nobody, requests.ReadFile("a.txt"))
    with pytest.raises(NotFound):
        await hosted.host.connect(nobody, 80)
    await hosted.host.close(nobody, reason="there is none")
