"""An impossible delivery is refused before the run starts."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hutch.app.forges import forges_of
from hutch.domain.errors import Denied, Unavailable
from hutch.flows.delivery.deliverability_check_before_run import check_deliverable
from hutch.forge.forge_and_credential_selection import COMMAND_LINE
from hutch.store.vault import Vault
from hutch.workspace.workspace import Workspace
from tests.deadline import DEADLINE_S
from tests.flows.delivery_fixtures import Delivering, bare, branches
from tests.forge.repositories import git, serving

pytestmark = pytest.mark.anyio


async def check(hutch: Delivering, workspace: Workspace, **given: Any) -> str:
    return await check_deliverable(forges_of(hutch.loaded), workspace, caller=COMMAND_LINE, **given)


async def test_a_repository_of_this_machine_is_not_asked(tmp_path: Path) -> None:
    hutch, origin = Delivering(tmp_path), bare(tmp_path)
    async with hutch.workspace(str(origin)) as workspace:
        origin.rename(tmp_path / "away")
        assert await check(hutch, workspace) == ""
    async with hutch.workspace({"a": b"1"}) as workspace:
        assert await check(hutch, workspace) == ""


async def test_one_elsewhere_is_asked_whether_it_takes_a_push_and_nothing_is_pushed(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    hutch, origin = Delivering(tmp_path), bare(tmp_path, name="served/origin.git")
    with serving(tmp_path / "served") as server:
        url = server.url("origin.git")
        async with hutch.workspace(url) as workspace:
            with pytest.raises(Denied, match=r"could not be delivered: .* --no-pr"):
                await check(hutch, workspace, address=url)
            with pytest.raises(Denied, match=r"could not be delivered: ") as refused:
                await check_deliverable(
                    forges_of(hutch.loaded), workspace, caller=COMMAND_LINE, address=url, once=True
                )
            assert "--no-pr" not in str(refused.value) and not str(refused.value).endswith(" ")
            git(origin, "config", "http.receivepack", "true")
            assert await check(hutch, workspace, address=url) == ""
            assert branches(origin) == ["main"]
    async with hutch.workspace(str(origin)) as workspace:  # what is down now may be back later
        assert await check(hutch, workspace, address=url) == ""


async def test_a_missing_gh_is_noticed_before_the_work(tmp_path: Path) -> None:
    hutch, origin = Delivering(tmp_path), bare(tmp_path)
    Vault(hutch.loaded.paths.vault, hutch.loaded.paths.vault_keys).set("github_token", "t0ken")
    without_gh = replace(forges_of(hutch.loaded), environment={"PATH": str(tmp_path)})
    async with hutch.workspace(str(origin)) as workspace:
        with pytest.raises(Unavailable, match=r"could not be delivered: gh is not installed\..* --no-pr"):
            await check_deliverable(
                without_gh, workspace, caller=COMMAND_LINE, address="https://github.com/ada/shop"
            )


async def test_an_unresponsive_server_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    hutch, _ = Delivering(tmp_path), bare(tmp_path, name="served/origin.git")
    reached, left = asyncio.Event(), asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()
        await reader.read()
        writer.close()
        await writer.wait_closed()
        left.set()

    async with AsyncExitStack() as stack:
        with serving(tmp_path / "served") as served:
            url = served.url("origin.git")
            workspace = await stack.enter_async_context(hutch.workspace(url))
        server = await asyncio.start_server(silent, "127.0.0.1", served.server_address[1])
        async with server, asyncio.timeout(DEADLINE_S):
            for timeout_s in (0.2, 2.0, 20.0):  # on a busy machine git has not even connected after a moment
                warning = await check_deliverable(
                    forges_of(hutch.loaded), workspace, caller=COMMAND_LINE, address=url, timeout_s=timeout_s
                )
                assert warning == ""
                if reached.is_set():
                    break
            await left.wait()
