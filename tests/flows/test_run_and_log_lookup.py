"""A run is found by what people call it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, NotFound
from hutch.flows.run_and_log_lookup import find_run_id
from hutch.store.event_log import SqlLog, open_log
from tests.new_database import place_database
from tests.store.test_run_queue import queue

pytestmark = pytest.mark.anyio


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqlLog]:
    place_database(tmp_path)
    async with open_log(tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "signing.pem") as opened:
        yield opened


async def test_a_run_is_found_by_its_id_its_session_or_as_the_last(log: SqlLog) -> None:
    one, two = await queue(log), await queue(log)
    for name, run in ((one.id, one), (one.session_id, one), (two.id[-8:], two), ("last", two)):
        assert await find_run_id(log, name) == run.id
    for name in ("ses_nothing", "nonsense"):
        with pytest.raises(NotFound, match=f"There is no run '{name}'"):
            await find_run_id(log, name)
    with pytest.raises(BadRequest):
        await find_run_id(log, one.id[4:10])  # of both


async def test_without_any_run_there_is_no_last_one(log: SqlLog) -> None:
    with pytest.raises(NotFound, match="There is no run 'last'"):
        await find_run_id(log, "last")
