"""Output of jobs that commands left running, in the log: under their own command, and not of an ended run."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from hutch.domain import inputs
from hutch.domain.current_actor_and_author import AGENT
from hutch.domain.events import CommandEnded, Event, JobsDetached, JobsEnded, RunEnded, ShellPrinted
from hutch.domain.ids import SessionId
from hutch.domain.session import NewSession
from hutch.flows import sessions
from hutch.gateway.gateway_context import Server
from hutch.sessions import file_and_command_requests as requests
from tests.deadline import DEADLINE_S
from tests.sessions.session_server import call, cassette, owner, repository, serving, state, until

pytestmark = pytest.mark.anyio

UNTIL_GO = "until test -e go; do sleep 0.02; done"


async def opened(server: Server, **about: Any) -> SessionId:
    who = await owner(server)
    session = await sessions.create(server.services, who, NewSession(purpose="jobs", **about))
    await state(server, who, session.id, "idle")
    return session.id


async def events_with_both_ends(server: Server, session_id: SessionId) -> list[Event]:
    """All events, when the output of the jobs and two commands have ended."""
    found: list[Event] = []
    async with asyncio.timeout(DEADLINE_S), aclosing(server.log.follow(session_id)) as entries:
        async for entry in entries:
            if isinstance(entry.event, Event):
                found.append(entry.event)
            commands = [event for event in found if isinstance(event, CommandEnded)]
            if len(commands) == 2 and any(isinstance(event, JobsEnded) for event in found):
                return found
    raise AssertionError("the log has ended")


async def test_a_jobs_output_is_recorded_for_its_own_author(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        session_id = await opened(server)
        ask = server.host.call
        command = f"({UNTIL_GO}; echo X; echo Y >&2) & echo ok"
        first = await ask(session_id, requests.RunCommand(command), by="u1")
        other = await ask(session_id, requests.RunCommand("touch go; sleep 0.3; echo other"), by="u2")
        events = await events_with_both_ends(server, session_id)
        read = await ask(session_id, requests.ReadCommand("bg_1", 0), by="u1")
    assert (first.stdout, first.id, other.stdout, other.stderr) == ("ok\n", "bg_1", "other\n", "")
    printed = [event for event in events if isinstance(event, ShellPrinted)]
    assert {(each.text, each.by, each.background_id) for each in printed} == {
        ("ok\n", "u1", None),
        ("X\n", "u1", "bg_1"),
        ("Y\n", "u1", "bg_1"),
        ("other\n", "u2", None),
    }
    left = next(event for event in events if isinstance(event, JobsDetached))
    assert (left.command, left.by, left.background_id) == (command, "u1", "bg_1")
    ended = next(event for event in events if isinstance(event, CommandEnded))
    assert events.index(printed[0]) < events.index(left) < events.index(ended)
    assert "X" in read.text and not read.running


@pytest.mark.parametrize(
    "bash",
    [
        {"command": f"({UNTIL_GO}; echo late) & echo begun"},
        {"command": f"echo begun; {UNTIL_GO}; echo late", "yield_s": 0.1},
        {"command": f"({UNTIL_GO}; echo late) & echo begun; sleep 0.3", "yield_s": 0.05},
    ],
)
async def test_the_end_of_a_run_names_what_may_print_after_it(tmp_path: Path, bash: dict[str, Any]) -> None:
    replies = [call("bash", **bash), call("bash", command="sleep 0.5"), {"text": "Done."}]
    model = cassette(tmp_path / "model.json", replies)
    async with serving(tmp_path / "home", model=model) as server:
        who = await owner(server)
        session_id = await opened(server, repository=str(repository(tmp_path / "repo")))
        await sessions.give(server.services, who, session_id, inputs.Prompt(text="Go."))
        await until(server, session_id, "run.ended")
        await server.host.call(session_id, requests.RunCommand("touch go"), by="u2")
        async with asyncio.timeout(DEADLINE_S), aclosing(server.log.follow(session_id)) as entries:
            events: list[Event] = []
            async for entry in entries:
                assert isinstance(entry.event, Event)
                events.append(entry.event)
                if isinstance(entry.event, ShellPrinted) and entry.event.text == "late\n":
                    break
    at = next(number for number, event in enumerate(events) if isinstance(event, RunEnded))
    ended = events[at]
    assert isinstance(ended, RunEnded) and ended.left_running == ("bg_1",)
    later = [event for event in events[at + 1 :] if getattr(event, "by", "") == AGENT]
    assert later and all(getattr(event, "background_id", None) == "bg_1" for event in later)
    assert "begun\n" in [event.text for event in events[:at] if isinstance(event, ShellPrinted)]


async def test_a_run_that_leaves_nothing_running_names_nothing(tmp_path: Path) -> None:
    replies = [call("bash", command="(sleep 0.1; echo x) & wait"), {"text": "Done."}]
    model = cassette(tmp_path / "model.json", replies)
    async with serving(tmp_path / "home", model=model) as server:
        who = await owner(server)
        session_id = await opened(server, repository=str(repository(tmp_path / "repo")))
        await sessions.give(server.services, who, session_id, inputs.Prompt(text="Go."))
        events = await until(server, session_id, "run.ended")
    ended = events[-1]
    assert isinstance(ended, RunEnded) and ended.left_running == ()
