"""What could not be delivered is known before anybody works on it."""

import asyncio
from pathlib import Path

import pytest

from hutch.app.deliverable import must_be_deliverable
from hutch.domain.errors import Denied
from tests.deadline import DEADLINE_S
from tests.flows.delivering import Delivering, bare, branches
from tests.forge.repositories import git, serving

pytestmark = pytest.mark.anyio


async def test_a_repository_of_this_machine_is_not_asked(tmp_path: Path) -> None:
    hutch, origin = Delivering(tmp_path), bare(tmp_path)
    async with hutch.workspace(str(origin)) as workspace:
        origin.rename(tmp_path / "away")
        assert await must_be_deliverable(hutch.loaded, workspace) == ""
    async with hutch.workspace({"a": b"1"}) as workspace:
        assert await must_be_deliverable(hutch.loaded, workspace) == ""


async def test_one_elsewhere_is_asked_whether_it_takes_a_push_and_nothing_is_pushed(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    hutch, origin = Delivering(tmp_path), bare(tmp_path, name="served/origin.git")
    with serving(tmp_path / "served") as server:
        url = server.url("origin.git")
        async with hutch.workspace(url) as workspace:
            with pytest.raises(Denied, match=r"could be delivered: .* --no-pr"):
                await must_be_deliverable(hutch.loaded, workspace, address=url)
            with pytest.raises(Denied, match=r"could be delivered: ") as refused:
                await must_be_deliverable(hutch.loaded, workspace, address=url, once=True)
            assert "--no-pr" not in str(refused.value) and not str(refused.value).endswith(" ")
            git(origin, "config", "http.receivepack", "true")
            assert await must_be_deliverable(hutch.loaded, workspace, address=url) == ""
            assert branches(origin) == ["main"]
    async with hutch.workspace(str(origin)) as workspace:  # what is down now may be back later
        assert await must_be_deliverable(hutch.loaded, workspace, address=url) == ""


async def test_who_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hutch.app.deliverable.LOOK_S", 0.2)
    hutch, origin = Delivering(tmp_path), bare(tmp_path)

    left = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        left.set()

    async with hutch.workspace(str(origin)) as workspace:
        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        async with server, asyncio.timeout(DEADLINE_S):
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/origin.git"
            assert await must_be_deliverable(hutch.loaded, workspace, address=url) == ""
            await left.wait()
