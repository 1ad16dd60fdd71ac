"""A session that was to be removed when the server was killed is removed by the next one."""

from pathlib import Path

import pytest

from hutch.app.workspaces import workspaces_of
from hutch.domain.errors import Conflict, NotFound
from hutch.domain.inputs import End
from hutch.domain.session import NewSession
from hutch.flows import session_removal_keeping_log, sessions
from hutch.store.session_inputs import add_input
from hutch.store.session_row_removal import PendingRemovals
from hutch.store.sessions import Sessions
from hutch.workspace.workspaces import session_workspace_id
from tests.gateway.api_server import eventually
from tests.sessions.session_server import owner, serving, state

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("when", ["before it has ended", "after it has ended"])
async def test_a_removal_that_was_cut_is_finished_by_the_next_server(tmp_path: Path, when: str) -> None:
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = (await sessions.create(server.services, who, NewSession())).id
        other = (await sessions.create(server.services, who, NewSession())).id
        for id in (session, other):
            await state(server, who, id, "idle")
        if when == "after it has ended":
            await sessions.give(server.services, who, session, End())
            await state(server, who, session, "ended")
        place = server.loaded.paths.data / "workspaces" / f"session-{session.removeprefix('ses_')}"
        assert place.is_dir()

        # As far as a killed server came: nobody has taken the input.
        await PendingRemovals(server.rows).add(session)
        if when == "before it has ended":
            body = End(reason="it was removed").model_dump_json()
            await server.rows.change(lambda connection: add_input(connection, session, who.user.id, body))
    async with serving(tmp_path / "home") as server:

        async def is_removed() -> bool:
            return not await PendingRemovals(server.rows).list()

        await eventually(is_removed)
        with pytest.raises(NotFound):
            await Sessions(server.rows).get(session)
        assert not place.exists()
        assert (await server.log.head(session)).ended
        assert (await Sessions(server.rows).get(other)).state != "ended"


async def test_a_removal_that_fails_is_not_finished_later(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = (await sessions.create(server.services, who, NewSession())).id
        await state(server, who, session, "idle")
        await server.host.close(session, reason="somebody looks into its files")
        async with workspaces_of(server.loaded).open(session_workspace_id(session)):
            with pytest.raises(Conflict, match="is open"):
                await session_removal_keeping_log.remove(server.services, who, session)
        assert await PendingRemovals(server.rows).list() == []
