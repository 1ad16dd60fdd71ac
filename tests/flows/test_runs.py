"""A run is found by what people call it."""

from pathlib import Path

import pytest

from hutch.domain.errors import NotFound
from hutch.domain.events import RunStarted, SessionOpened, ToolCalled
from hutch.domain.ids import new_session_id
from hutch.flows.runs import find_run
from hutch.store.log import open_log

pytestmark = pytest.mark.anyio


async def test_a_run_is_found_by_its_id_its_session_or_as_the_last(tmp_path: Path) -> None:
    one, empty, two = new_session_id(), new_session_id(), new_session_id()
    async with open_log(tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "signing.pem") as log:
        for session_id, run_id in ((one, "run_1"), (empty, ""), (two, "run_2")):
            started = RunStarted(run_id=run_id, prompt="Go.", persona="engineer", model="m")
            await log.append(session_id, [SessionOpened(), *([started] if run_id else [])])
        for name, session_id in (("run_1", one), (one, one), ("run_2", two), ("last", two)):
            found, entries = await find_run(log, name)
            assert (found, len(entries)) == (session_id, 2)
        for name in ("run_3", "nonsense"):
            with pytest.raises(NotFound, match=f"There is no run '{name}'"):
                await find_run(log, name)
        with pytest.raises(NotFound, match="stopped before its run began"):
            await find_run(log, empty)


async def test_an_older_run_is_not_taken_for_one_that_never_began(tmp_path: Path) -> None:
    one, never, tools = new_session_id(), new_session_id(), new_session_id()
    async with open_log(tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "signing.pem") as log:
        started = RunStarted(run_id="run_1", prompt="Go.", persona="engineer", model="m")
        await log.append(one, [SessionOpened(), started])
        await log.append(never, [SessionOpened()])
        with pytest.raises(NotFound, match=f"The session {never} was stopped before its run began"):
            await find_run(log, "last")
        assert (await find_run(log, "run_1"))[0] == one
        await log.append(never, [ToolCalled(run_id="", call_id="a", tool="bash", arguments="{}")])
        await log.append(
            tools, [SessionOpened(), ToolCalled(run_id="", call_id="a", tool="bash", arguments="{}")]
        )
        assert (await find_run(log, "last"))[0] == one  # sessions of tools have no runs
