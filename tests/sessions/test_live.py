"""A session in this process: what is begun with its jail is finished."""

import asyncio
from pathlib import Path

import pytest

from hutch.domain.events import SessionParked
from hutch.flows import sessions
from hutch.flows.sessions import NewSession
from hutch.sessions import requests
from tests.deadline import DEADLINE_S
from tests.sessions.hosting import owner, serving, state, until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("steps", [1, 2, 3, 10, 30])
async def test_a_jail_that_is_being_parked_is_closed_also_when_that_is_cancelled(
    tmp_path: Path, steps: int
) -> None:
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await sessions.create(server.site, who, NewSession())
        await state(server, who, session.id, "idle")
        live = server.host._lives[session.id]  # type: ignore[attr-defined]
        warden = Path(f"/proc/{live.desk.jail.warden_pid}")
        # What a command has told is on its way into the log: parking waits for that first.
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
