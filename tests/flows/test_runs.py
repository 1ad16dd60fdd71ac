"""A run is found by what people call it."""

from pathlib import Path

import pytest

from hutch.domain.errors import NotFound
from hutch.domain.events import RunStarted, SessionOpened
from hutch.domain.ids import new_session_id
from hutch.flows.runs import find_run
from hutch.store.log import open_log

pytestmark = pytest.mark.anyio


async def test_a_run_is_found_by_its_id_its_session_or_as_the_last(tmp_path: Path) -> None:
    one, two, empty = new_session_id(), new_session_id(), new_session_id()
    async with open_log(tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "signing.pem") as log:
        for session_id, run_id in ((one, "run_1"), (two, "run_2"), (empty, "")):
            started = RunStarted(run_id=run_id, prompt="Go.", persona="engineer", model="m")
            await log.append(session_id, [SessionOpened(), *([started] if run_id else [])])
        for name, session_id in (("run_1", one), (one, one), ("run_2", two), ("last", two)):
            found, entries = await find_run(log, name)
            assert (found, len(entries)) == (session_id, 2)
        for name in ("run_3", empty, "nonsense"):
            with pytest.raises(NotFound, match=f"There is no run '{name}'"):
                await find_run(log, name)
