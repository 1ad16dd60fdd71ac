"""Runs that wait for a user leave their place to others."""

import asyncio
from pathlib import Path

import pytest

from hutch.domain import inputs
from hutch.domain.events import QuestionAsked, RunEnded
from hutch.domain.session import NewSession
from hutch.flows import sessions
from hutch.sessions.file_and_command_requests import OpenTerminal
from tests.deadline import DEADLINE_S
from tests.sessions.session_server import call, cassette, owner, serving, state, until

pytestmark = pytest.mark.anyio

PLACES = {"sessions__runs": 2, "sessions__runs_per_user": 2}


async def test_a_server_whose_runs_all_wait_runs_another_and_opens_a_terminal(tmp_path: Path) -> None:
    asks = cassette(tmp_path / "asks.json", [call("ask_user", question="Go?"), call("finish", title="Done")])
    works = cassette(tmp_path / "works.json", [call("finish", title="Done")])
    async with serving(tmp_path / "home", **PLACES) as server:
        ada = await owner(server)
        waiting = [
            await sessions.create(server.services, ada, NewSession(prompt=f"Ask {number}.", model=asks))
            for number in range(4)
        ]
        questions = [(await until(server, each.id, "question.asked"))[-1] for each in waiting]
        fifth = await sessions.create(server.services, ada, NewSession(prompt="Work.", model=works))
        ended = (await until(server, fifth.id, "run.ended"))[-1]
        assert isinstance(ended, RunEnded) and ended.outcome == "done"

        terminals = await sessions.create(server.services, ada, NewSession(purpose="a terminal"))
        await until(server, terminals.id, "session.prepared")
        await state(server, ada, terminals.id, "idle")
        opened = await server.host.call(terminals.id, OpenTerminal(), by=ada.user.id)
        async with asyncio.timeout(DEADLINE_S), server.host.terminal(terminals.id, opened.id):
            pass

        for session, question in zip(waiting, questions, strict=True):
            assert isinstance(question, QuestionAsked)
            answer = inputs.Answer(call_id=question.call_id, text="Yes.")
            await sessions.give(server.services, ada, session.id, answer)
        for session in waiting:
            ended = (await until(server, session.id, "run.ended"))[-1]
            assert isinstance(ended, RunEnded) and ended.outcome == "done"


async def test_a_waiting_run_that_is_paused_waits_until_it_is_resumed(tmp_path: Path) -> None:
    asks = cassette(tmp_path / "asks.json", [call("ask_user", question="Go?"), call("finish", title="Done")])
    async with serving(tmp_path / "home") as server:
        ada = await owner(server)
        session = await sessions.create(server.services, ada, NewSession(prompt="Ask.", model=asks))
        await until(server, session.id, "question.asked")
        await sessions.give(server.services, ada, session.id, inputs.Pause())
        await until(server, session.id, "input.processed")
        (run,) = await sessions.runs(server.services, ada, session.id)
        assert (await state(server, ada, session.id, "paused"), run.state) == ("paused", "held")
        await sessions.give(server.services, ada, session.id, inputs.Resume())
        await state(server, ada, session.id, "waiting")
