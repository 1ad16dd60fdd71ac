"""`hutch sessions prune` removes only expired workspaces."""

import asyncio
from pathlib import Path

import pytest

from hutch import settings
from hutch.app.retention import retention_of
from hutch.flows.retention import DAY_MS
from hutch.store.log import open_log
from hutch.system.clock import wall_ms
from tests.cli.running import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    tmp_path.chmod(0o755)
    return Desk(tmp_path)


async def days_later(desk: Desk, days: int) -> list[str]:
    loaded = settings.load(environ=desk.environment())
    paths = loaded.paths
    async with open_log(paths.database, paths.blobs, paths.signing_key) as log:
        gone = await retention_of(loaded, log).sweep(at_ms=wall_ms() + days * DAY_MS)
        return [each.workspace_id for each in gone]


def test_the_workspace_of_a_run_is_removed_in_time_and_one_made_by_hand_is_not(desk: Desk) -> None:
    place = desk.place / "home/data/workspaces"
    assert desk.run().returncode == 0
    (ran,) = [path.name for path in place.iterdir()]
    assert desk.hutch("workspace", "prepare", str(desk.work), "--id", "mine").returncode == 0
    told = desk.hutch("sessions", "prune")
    assert (told.returncode, told.stdout, told.stderr) == (0, "", "0 workspaces removed.\n")
    assert asyncio.run(days_later(desk, 29)) == []
    assert asyncio.run(days_later(desk, 31)) == [ran]
    assert [path.name for path in place.iterdir()] == ["mine"]
    assert "run.started" in desk.hutch("log", "last", "--json").stdout
