"""A cancel stops the work: messages that wait for the run do not start another one."""

from pathlib import Path

import pytest

from hutch.domain import inputs
from hutch.domain.events import InputProcessed, RunStarted
from hutch.domain.session import NewSession
from hutch.flows import sessions
from hutch.sessions.input_processing import DROPPED
from tests.sessions.session_server import call, cassette, owner, serving, state, until

pytestmark = pytest.mark.anyio

SLEEPS = call("bash", command="sleep 600", timeout_s=600)


async def test_a_message_that_waits_for_a_cancelled_run_is_dropped_and_named(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [SLEEPS, {"text": "Hello."}])
    async with serving(tmp_path / "home", model=model) as server:
        who = await owner(server)
        session = (await sessions.create(server.services, who, NewSession(prompt="Wait."))).id
        count = len(await until(server, session, "command.started"))
        late = [
            await sessions.give(server.services, who, session, inputs.Message(text=text)) for text in "ab"
        ]
        await sessions.give(server.services, who, session, inputs.Cancel())
        events = await until(server, session, "run.ended", after=count)
        await state(server, who, session, "idle")
        count += len(events)
        await sessions.give(server.services, who, session, inputs.Message(text="Now this."))
        events = await until(server, session, "run.ended", after=count)
        refused = [each.input for each in events if isinstance(each, InputProcessed) and each.refused]
        assert refused == [each.seq for each in late]
        assert {each.refused for each in events if isinstance(each, InputProcessed)} == {DROPPED, ""}
        assert [each.prompt for each in events if isinstance(each, RunStarted)] == ["Now this."]


async def test_a_message_after_the_cancel_starts_a_run(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [SLEEPS, {"text": "Hello."}])
    async with serving(tmp_path / "home", model=model) as server:
        who = await owner(server)
        session = (await sessions.create(server.services, who, NewSession(prompt="Wait."))).id
        count = len(await until(server, session, "command.started"))
        await sessions.give(server.services, who, session, inputs.Cancel())
        await sessions.give(server.services, who, session, inputs.Message(text="Go on."))
        count += len(await until(server, session, "run.ended", after=count))
        events = await until(server, session, "run.ended", after=count)
        assert [each.prompt for each in events if isinstance(each, RunStarted)] == ["Go on."]


async def test_prompts_of_their_own_stay_queued(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [SLEEPS, {"text": "Hello."}])
    async with serving(tmp_path / "home", model=model) as server:
        who = await owner(server)
        session = (await sessions.create(server.services, who, NewSession(prompt="Wait."))).id
        count = len(await until(server, session, "command.started"))
        await sessions.give(server.services, who, session, inputs.Prompt(text="Next task."))
        await sessions.give(server.services, who, session, inputs.Cancel())
        count += len(await until(server, session, "run.ended", after=count))
        events = await until(server, session, "run.ended", after=count)
        assert [each.prompt for each in events if isinstance(each, RunStarted)] == ["Next task."]
