"""A session in this process: work that was begun in its jail is finished."""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

from hutch.domain.events import Event, ModelReplied, RunEnded, SessionParked
from hutch.domain.inputs import Prompt
from hutch.domain.session import NewSession
from hutch.flows import sessions
from hutch.sessions import file_and_command_requests as requests
from hutch.store.log_writer import Writer
from tests.deadline import DEADLINE_S
from tests.sessions.session_server import cassette, owner, serving, state, until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("steps", [1, 2, 3, 10, 30])
async def test_a_jail_that_is_being_parked_is_closed_also_when_that_is_cancelled(
    tmp_path: Path, steps: int
) -> None:
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession())
        await state(server, who, session.id, "idle")
        live = server.host._lives[session.id]  # type: ignore[attr-defined]
        warden = Path(f"/proc/{live.sandbox.jail.warden_pid}")
        # The events of a command are on their way into the log: parking waits for them first.
        await server.host.call(session.id, requests.RunCommand("true"))
        parking = asyncio.ensure_future(live.park(reason="a test"))
        for _ in range(steps):
            await asyncio.sleep(0)
        for _ in range(3):  # as often as a cancel scope does it
            parking.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([parking])
        assert parking.cancelled()
        async with asyncio.timeout(DEADLINE_S):
            while warden.exists():  # noqa: ASYNC110, ASYNC240  the kernel takes a moment
                await asyncio.sleep(0.02)
        assert await state(server, who, session.id, "parked")
        parked = (await until(server, session.id, "session.parked"))[-1]
        assert isinstance(parked, SessionParked) and parked.snapshot
        await server.host.call(session.id, requests.RunCommand("true"))


async def test_a_session_that_is_parked_at_the_end_names_no_server(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:  # a command without a server uses the same host
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession())
        await state(server, who, session.id, "idle")
    async with serving(tmp_path / "home") as server:
        parked = (await until(server, session.id, "session.parked"))[-1]
        assert isinstance(parked, SessionParked) and parked.reason == "Hutch was stopped"


def waits_for_an_end(writer: Writer) -> bool:
    """True if the end of a run is among the events that a writer has not taken. It must be held."""
    jobs: list[Any] = []
    with suppress(Empty):
        while True:
            jobs.append(writer._queue.get_nowait())
    for job in jobs:
        writer._queue.put(job)
    return any(isinstance(event, RunEnded) for job in jobs for event in getattr(job, "events", ()))


async def test_a_run_that_is_cancelled_while_its_end_is_written_ends_once(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [{"text": "That is all."}])
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession(model=model))
        await state(server, who, session.id, "idle")
        held, go = threading.Event(), threading.Event()
        holding: list[asyncio.Future[None]] = []

        def hold(_: object) -> None:
            held.set()
            go.wait(DEADLINE_S)

        async def hold_after_reply(events: Sequence[Event]) -> None:
            if any(isinstance(event, ModelReplied) for event in events):
                holding.append(asyncio.ensure_future(server.rows.change(hold)))
                await asyncio.to_thread(held.wait, DEADLINE_S)

        server.host._lives[session.id].recorder.listeners.append(hold_after_reply)  # type: ignore[attr-defined]
        await sessions.give(server.services, who, session.id, Prompt(text="Say it."))
        writer = server.log._writer  # type: ignore[attr-defined]
        async with asyncio.timeout(DEADLINE_S):
            while not held.is_set() or not waits_for_an_end(writer):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        stopping = asyncio.ensure_future(server.host._lives[session.id].stop())  # type: ignore[attr-defined]
        for _ in range(20):
            await asyncio.sleep(0.01)
        go.set()
        assert await stopping
        await asyncio.gather(*holding)
        ended = [e for e in await until(server, session.id, "run.ended") if isinstance(e, RunEnded)]
        await state(server, who, session.id, "idle")
        entries = await server.log.read(session.id)
        assert [e.event for e in entries if isinstance(e.event, RunEnded)] == ended
        assert ended[0].outcome == "done"


async def test_a_run_whose_log_is_erased_as_it_ends_keeps_its_outcome(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [{"text": "That is all."}])
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession(model=model))
        await state(server, who, session.id, "idle")

        async def erase(events: Sequence[Event]) -> None:
            if any(isinstance(event, RunEnded) for event in events):
                await server.log.erase(session.id, None, reason="a secret")

        server.host._lives[session.id].recorder.listeners.append(erase)  # type: ignore[attr-defined]
        await sessions.give(server.services, who, session.id, Prompt(text="Say it."))
        await until(server, session.id, "run.ended")
        await state(server, who, session.id, "idle")
        entries = await server.log.read(session.id)
        found = await sessions.runs(server.services, who, session.id)
    assert [(run.state, run.outcome) for run in found if run.kind == "prompt"] == [("ended", "done")]
    assert [entry.event.type for entry in entries].count("run.ended") == 1
