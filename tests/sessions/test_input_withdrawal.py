"""An input without an effect can be taken back; one that had its effect is left alone."""

from pathlib import Path

import pytest

from hutch.domain import inputs
from hutch.domain.events import Event, InputProcessed, MessageSent, RunEnded, RunStarted
from hutch.domain.session import NewSession
from hutch.flows import sessions
from hutch.sessions.input_withdrawal import TOO_LATE, WITHDRAWN
from tests.sessions.session_server import call, cassette, owner, serving, state, until

pytestmark = pytest.mark.anyio

WAITS = call("bash", command="until [ -e go ]; do sleep 0.02; done", timeout_s=600)


def refusals(events: list[Event]) -> dict[int, str]:
    return {each.input: each.refused for each in events if isinstance(each, InputProcessed)}


async def test_a_message_that_the_agent_has_not_received_is_taken_back(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [WAITS, {"text": "Done."}])
    async with serving(tmp_path / "home", model=model) as server:
        who = await owner(server)
        session = (await sessions.create(server.services, who, NewSession(prompt="Wait."))).id
        count = len(await until(server, session, "command.started"))
        kept = await sessions.give(server.services, who, session, inputs.Message(text="Keep this."))
        message = await sessions.give(server.services, who, session, inputs.Message(text="Not this."))
        for _ in range(2):  # the second time it changes nothing
            asked = inputs.Withdraw(input=message.seq)
            withdrawal = await sessions.give(server.services, who, session, asked)
            events = await until(server, session, "input.processed", after=count)
        while withdrawal.seq not in refusals(events):
            events += await until(server, session, "input.processed", after=count + len(events))
        async with server.host.sandbox(session) as sandbox:
            await sandbox.jail.run(["touch", "/workspace/go"])
        events += await until(server, session, "run.ended", after=count + len(events))
        await state(server, who, session, "idle")
        assert refusals(events)[message.seq] == WITHDRAWN
        assert refusals(events)[withdrawal.seq] == "" and refusals(events)[kept.seq] == ""
        assert [each.text for each in events if isinstance(each, MessageSent)] == ["Keep this."]


async def test_a_prompt_whose_run_has_not_started_is_taken_back(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [WAITS, {"text": "Done.", "times": 9}])
    async with serving(tmp_path / "home", model=model) as server:
        who = await owner(server)
        session = (await sessions.create(server.services, who, NewSession(prompt="Wait."))).id
        count = len(await until(server, session, "command.started"))
        prompt = await sessions.give(server.services, who, session, inputs.Prompt(text="Next task."))
        for _ in range(2):
            await sessions.give(server.services, who, session, inputs.Withdraw(input=prompt.seq))
            events = await until(server, session, "run.ended", after=count)
        assert [each.reason for each in events if isinstance(each, RunEnded)] == [WITHDRAWN]
        async with server.host.sandbox(session) as sandbox:
            await sandbox.jail.run(["touch", "/workspace/go"])
        await state(server, who, session, "idle")
        events = [entry.event for entry in await server.log.read(session, limit=1000)]
        assert [each.prompt for each in events if isinstance(each, RunStarted)] == ["Wait."]
        assert set(refusals(events).values()) == {""}


async def test_what_had_its_effect_cannot_be_taken_back(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [{"text": "Done.", "times": 9}])
    async with serving(tmp_path / "home", model=model) as server:
        who = await owner(server)
        session = (await sessions.create(server.services, who, NewSession(prompt="Go."))).id
        count = len(await until(server, session, "run.ended"))
        await state(server, who, session, "idle")
        for number in (1, 2, 99):
            given = await sessions.give(server.services, who, session, inputs.Withdraw(input=number))
            events = await until(server, session, "input.processed", after=count)
            count += len(events)
            assert refusals(events)[given.seq] == TOO_LATE.format(number)
