"""A server that is killed at any moment loses nothing that it had acknowledged, and leaves nothing stuck."""

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hutch.domain import inputs
from hutch.domain.events import (
    Event,
    InputProcessed,
    MessageSent,
    QuestionAsked,
    RunEnded,
    RunQueued,
    RunStarted,
    SessionParked,
    ToolReturned,
)
from hutch.domain.ids import SessionId
from hutch.domain.session import NewSession
from hutch.domain.user import Caller
from hutch.flows import sessions
from hutch.gateway.gateway_context import Server
from hutch.sessions import file_and_command_requests as requests
from hutch.sessions.input_processing import DROPPED
from hutch.sessions.live_session import LiveSession
from hutch.sessions.waiting_run_cancellation import CANCELLED, abandon
from hutch.store.run_queue import Runs
from hutch.store.sessions import Sessions
from tests.deadline import DEADLINE_S
from tests.forked_command import PLAIN, Forked
from tests.sessions.session_server import call, cassette, owner, serving, state, until

pytestmark = pytest.mark.anyio
ROUNDS = int(os.environ.get("HUTCH_TEST_KILLS", "12"))
SETTLED = ("idle", "parked", "ended")


async def _kill(home: Path, model: str, seed: int) -> list[dict[str, Any]]:
    """Start a server, kill it at some moment, and answer what it had acknowledged."""
    process = Forked(
        [sys.executable, "-m", "tests.sessions.killed_server", str(home), model, str(seed)],
        env=PLAIN,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    result = [json.loads(await asyncio.to_thread(process.stdout.readline))]
    waiting = asyncio.get_running_loop().call_later(
        random.Random(seed).uniform(0.1, 2.0), os.kill, process.pid, signal.SIGKILL
    )
    try:
        rest = await asyncio.to_thread(process.stdout.readlines)
        result += [json.loads(line) for line in rest if line.endswith(b"\n")]
    finally:
        waiting.cancel()
        process.stdout.close()
        await asyncio.to_thread(process.wait)
    return result


async def _check(server: Server, who: Caller, session_id: SessionId, acknowledged: dict[int, Any]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            now = await state(server, who, session_id, "paused", *SETTLED)
            if now == "paused":
                await sessions.give(server.services, who, session_id, inputs.Resume())
            given = {each.seq: each for each in await sessions.inputs(server.services, who, session_id)}
            left = await Runs(server.rows).unfinished(session_id)
            if now != "paused" and not left and all(each.processed for each in given.values()):
                break
            await asyncio.sleep(0.05)
    assert set(acknowledged) <= set(given)
    events = []
    while page := await server.log.read(session_id, after=len(events)):
        events += [entry.event for entry in page]
    seen = {event.input for event in events if isinstance(event, InputProcessed | MessageSent)}
    received = Counter(event.input for event in events if isinstance(event, MessageSent) and event.input)
    assert all(count == 1 for count in received.values())
    queued = Counter(event.run_id for event in events if isinstance(event, RunQueued))
    started = Counter(event.run_id for event in events if isinstance(event, RunStarted))
    ended = Counter(event.run_id for event in events if isinstance(event, RunEnded))
    assert all(count == 1 for count in (*started.values(), *ended.values(), *queued.values()))
    assert set(started) <= set(ended)
    returned = Counter((event.run_id, event.call_id) for event in events if isinstance(event, ToolReturned))
    assert all(count == 1 for count in returned.values())
    rows = await sessions.runs(server.services, who, session_id, limit=1000)
    texts = [each.prompt for each in rows] + [e.text for e in events if isinstance(e, MessageSent)]
    # A cancelled run drops the messages that it did not get, and the log says so.
    dropped = {e.input for e in events if isinstance(e, InputProcessed) and e.refused == DROPPED}
    for seq, body in acknowledged.items():
        if "text" in body:
            assert texts.count(body["text"]) == (0 if seq in dropped else 1), body
        else:
            assert seq in seen, body


@pytest.mark.long
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, ROUNDS))]
)
async def test_a_server_that_is_killed_loses_nothing(tmp_path: Path, seed: int) -> None:
    model = cassette(
        tmp_path / "c.json",
        [call("bash", command="sleep 0.1; echo x >> count"), call("finish", title="Done")] * 3,
    )
    home = tmp_path / "home"
    acknowledged: dict[str, dict[int, Any]] = {}
    for round_ in range(2):
        for fact in await _kill(home, model, seed * 100 + round_):
            if "session" in fact:
                acknowledged[fact["session"]] = {}
            elif "input" in fact:
                acknowledged.setdefault(fact["of"], {})[fact["input"]] = fact["body"]
    async with serving(home, sessions__runs=8, sessions__runs_per_user=8) as server:
        who = await owner(server)
        assert {each.session.id for each in await sessions.page(server.services, who, limit=1000)} >= set(
            acknowledged
        )
        for session_id, of_session in acknowledged.items():
            await _check(server, who, SessionId(session_id), of_session)


async def test_a_session_whose_last_run_was_given_up_when_the_server_was_killed_is_not_queued_for_ever(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path / "home", sessions__runs=1) as server:
        who = await owner(server)
        slow = cassette(tmp_path / "slow.json", [{"text": "Late.", "delay_s": 600}])
        busy = await sessions.create(
            server.services, who, NewSession(model=slow, prompt="Take the only place.")
        )
        await until(server, busy.id, "run.started")
        session = await sessions.create(server.services, who, NewSession(model=slow, prompt="Wait."))
        # As far as a cancel gets before a kill: the run is given up, and the state is as it was.
        live = server.host._lives.get(session.id) or LiveSession(session.id, server.host._dependencies)  # type: ignore[attr-defined]
        (run,) = await live.runs.unfinished(session.id)
        await abandon(live, run, CANCELLED)
        assert (await sessions.show(server.services, who, session.id)).session.state == "queued"
    async with serving(tmp_path / "home", sessions__runs=1) as server:
        assert (await sessions.show(server.services, who, session.id)).session.state == "parked"
        assert (await server.host.call(session.id, requests.RunCommand("echo here"))).stdout == "here\n"


async def test_a_session_that_a_killed_server_left_is_parked_with_that_reason(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession())
        await state(server, who, session.id, "idle")
    async with serving(tmp_path / "home") as server:
        await Sessions(server.rows).set(session.id, state="idle")  # as a killed server leaves it
    async with serving(tmp_path / "home") as server:
        last = (await server.log.read(session.id))[-1].event
    assert last == SessionParked(reason="the server ended without a shutdown")


async def test_a_jail_that_is_killed_is_replaced(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession())
        await state(server, who, session.id, "idle")
        await server.host.call(session.id, requests.WriteFile("kept", b"yes"))
        live = server.host._lives[session.id]  # type: ignore[attr-defined]
        os.kill(live.sandbox.jail.warden_pid, signal.SIGKILL)
        async with asyncio.timeout(DEADLINE_S):
            while not live._open.lost:  # noqa: ASYNC110  no event reports it
                await asyncio.sleep(0.01)
        ran = await server.host.call(session.id, requests.RunCommand("cat kept"))
        assert ran.stdout == "yes"
        events = await until(server, session.id, "session.parked")
        assert events[-1].reason == "its jail was lost"  # type: ignore[attr-defined]


async def test_a_message_received_while_the_run_is_cancelled_is_no_prompt_too(tmp_path: Path) -> None:
    model = cassette(
        tmp_path / "c.json",
        [
            call("bash", command="until [ -e /tmp/go ]; do sleep 0.02; done", timeout_s=600),
            {"text": "Late.", "delay_s": 600},
        ],
    )
    async with serving(tmp_path / "home", model=model) as server:
        who = await owner(server)
        blocking = sqlite3.connect(tmp_path / "home" / "data" / "hutch.db", isolation_level=None)
        blocked = asyncio.Event()

        def block(_: SessionId, events: Sequence[Event], *rest: object) -> None:
            if any(event.type == "tool.returned" for event in events):
                blocking.execute("BEGIN IMMEDIATE")  # the next to write waits: what is received
                blocked.set()

        server.log.listeners.append(block)
        session = await sessions.create(server.services, who, NewSession(prompt="Go."))
        await until(server, session.id, "command.started")
        await sessions.give(server.services, who, session.id, inputs.Message(text="Listen."))
        async with server.host.sandbox(session.id) as sandbox:
            await sandbox.jail.run(["touch", "/tmp/go"])
        await asyncio.wait_for(blocked.wait(), DEADLINE_S)
        live = server.host._lives[session.id]  # type: ignore[attr-defined]
        async with asyncio.timeout(DEADLINE_S):
            while live.inbox:  # noqa: ASYNC110  no event reports that the run has taken the message
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # it is written in a few turns of the loop
        stopping = asyncio.create_task(live.stop())
        await asyncio.sleep(0.1)
        blocking.execute("ROLLBACK")
        blocking.close()
        await stopping
        await until(server, session.id, "input.processed")
        assert await state(server, who, session.id, *SETTLED) in SETTLED
        events = [entry.event for entry in await server.log.read(session.id)]
        assert [event.text for event in events if isinstance(event, MessageSent)] == ["Listen."]
        assert [event.prompt for event in events if isinstance(event, RunQueued)] == ["Go."]


async def test_a_run_that_was_held_for_a_moment_when_the_server_was_killed_goes_on(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [{"text": "Late.", "delay_s": 600}])
    async with serving(tmp_path / "home", model=model, sessions__runs=1) as server:
        who = await owner(server)
        busy = await sessions.create(server.services, who, NewSession(prompt="Take the only place."))
        await until(server, busy.id, "run.started")
        session = await sessions.create(server.services, who, NewSession(prompt="Wait."))
        (run,) = await Runs(server.rows).unfinished(session.id)
        assert await Runs(server.rows).hold_queued(run.id)
        (working,) = await Runs(server.rows).unfinished(busy.id)
        assert not await Runs(server.rows).hold_queued(working.id)
    async with serving(tmp_path / "home", model=model, sessions__runs=2) as server:
        await until(server, session.id, "run.started")


async def test_a_question_that_was_open_when_the_server_stopped_still_waits_for_its_answer(
    tmp_path: Path,
) -> None:
    replies = [call("ask_user", question="Which one?"), call("finish", title="Done")]
    model = cassette(tmp_path / "c.json", replies)
    async with serving(tmp_path / "home", model=model) as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession(prompt="Ask first."))
        before = await until(server, session.id, "question.asked")
        await state(server, who, session.id, "waiting")
    for _ in range(2):  # and a second restart changes nothing
        async with serving(tmp_path / "home", model=model) as server:
            asked = (await until(server, session.id, "question.asked", after=len(before)))[-1]
            await state(server, who, session.id, "waiting")
            result = [entry.event for entry in await server.log.read(session.id)]
            assert asked == before[-1]
            assert not any(isinstance(event, ToolReturned | RunEnded) for event in result)
    async with serving(tmp_path / "home", model=model) as server:
        await state(server, who, session.id, "waiting")
        assert isinstance(asked, QuestionAsked)
        answer = inputs.Answer(call_id=asked.call_id, text="The second.")
        await sessions.give(server.services, who, session.id, answer)
        events = await until(server, session.id, "run.ended")
        returned = [event.text for event in events if isinstance(event, ToolReturned)]
        assert returned == ["The user answers: The second.", "Done."]
