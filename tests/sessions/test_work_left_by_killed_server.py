"""Unfinished work of a killed server is resumed or removed by the next one."""

import asyncio
import sys
from pathlib import Path

import pytest

from hutch.app.session_file_retention import retention_of
from hutch.app.workspaces import workspaces_of
from hutch.domain import inputs
from hutch.domain.session import NewSession
from hutch.flows import sessions
from hutch.store.idle_session_expiry import SessionExpiry
from hutch.store.session_row_removal import remove_session
from hutch.workspace.workspaces import session_of_workspace
from tests.forked_command import PLAIN, run
from tests.sessions.session_server import loaded, owner, serving, state

pytestmark = pytest.mark.anyio


async def _killed(home: Path, point: str) -> str:
    words = [sys.executable, "-m", "tests.sessions.server_killed_while_opening", str(home), point]
    ended = await asyncio.to_thread(run, words, env=PLAIN, capture_output=True, text=True)
    assert ended.returncode == -9, ended.stderr
    return str(ended.stdout).strip()


async def _workspaces(home: Path) -> list[str]:
    return [record.id for record in await workspaces_of(loaded(home)).records()]


async def test_a_session_that_was_not_written_has_no_log(tmp_path: Path) -> None:
    await _killed(tmp_path / "home", "row")
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        assert await sessions.page(server.services, who) == []
        assert await server.log.heads() == []
    assert await _workspaces(tmp_path / "home") == []


async def test_a_workspace_that_was_made_is_the_one_its_session_gets(tmp_path: Path) -> None:
    session_id = await _killed(tmp_path / "home", "workspace")
    left = await _workspaces(tmp_path / "home")
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        (shown,) = await sessions.page(server.services, who)
        assert shown.session.id == session_id
        await state(server, who, shown.session.id, "idle")
        session = (await sessions.show(server.services, who, session_id)).session
    assert left == await _workspaces(tmp_path / "home") == [session.workspace_id]


async def test_a_workspace_that_no_session_names_is_removed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with serving(home) as server:
        who = await owner(server)
        kept, over, removed = [
            await sessions.create(server.services, who, NewSession(purpose=word)) for word in ("a", "b", "c")
        ]
        for session in (kept, over, removed):
            await state(server, who, session.id, "idle")
        for session in (over, removed):
            await sessions.give(server.services, who, session.id, inputs.End())
            await state(server, who, session.id, "ended")
        await server.host.close(kept.id, reason="test")
        await SessionExpiry(server.rows).clear_workspace(over.id)
        await remove_session(server.rows, removed)
        await retention_of(server.loaded, server.log).sweep()
        assert [session_of_workspace(id) for id in await _workspaces(home)] == [kept.id]


async def test_the_work_of_sessions_that_an_older_database_does_not_know_is_kept(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with serving(home) as server:
        who, database = await owner(server), server.loaded.paths.database
    backup = database.read_bytes()
    async with serving(home) as server:
        session = await sessions.create(server.services, who, NewSession(purpose="work"))
        await state(server, who, session.id, "idle")
    database.write_bytes(backup)
    async with serving(home) as server:
        assert await sessions.page(server.services, who) == []
        await retention_of(server.loaded, server.log).sweep()
    assert [session_of_workspace(id) for id in await _workspaces(home)] == [session.id]
