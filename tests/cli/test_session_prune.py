"""`hutch sessions prune` removes only expired workspaces."""

import asyncio
from pathlib import Path

import pytest

from hutch import settings
from hutch.app.file_retention import retention_of
from hutch.cli import exit_codes
from hutch.flows.file_retention import DAY_MS
from hutch.store.event_log import open_log
from hutch.system.clock import wall_ms
from tests.cli.running import Desk

MINUTE_MS = 60_000


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    tmp_path.chmod(0o755)
    return Desk(tmp_path)


async def later(desk: Desk, later_ms: int, **env: str) -> list[str]:
    loaded = settings.load(environ=desk.environment(**env))
    paths = loaded.paths
    async with open_log(paths.database, paths.blobs, paths.signing_key) as log:
        gone = await retention_of(loaded, log).sweep(at_ms=wall_ms() + later_ms)
        return [each.workspace_id for each in gone]


async def days_later(desk: Desk, days: int) -> list[str]:
    return await later(desk, days * DAY_MS)


def workspaces(desk: Desk) -> list[str]:
    return sorted(path.name for path in (desk.place / "home/data/workspaces").iterdir())


def test_the_workspace_of_a_run_is_removed_in_time_and_one_made_by_hand_is_not(desk: Desk) -> None:
    place = desk.place / "home/data/workspaces"
    assert desk.run().returncode == 0
    (ran,) = [path.name for path in place.iterdir()]
    assert desk.hutch("workspace", "prepare", str(desk.work), "--id", "mine").returncode == 0
    result = desk.hutch("sessions", "prune")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "0 workspaces removed.\n")
    assert asyncio.run(days_later(desk, 29)) == []
    assert asyncio.run(days_later(desk, 31)) == [ran]
    assert [path.name for path in place.iterdir()] == ["mine"]
    assert "run.started" in desk.hutch("log", "last", "--json").stdout


SMALL = {"HUTCH_SESSIONS__FILE_RETENTION_BYTES": "1"}
FAILS = ({"fault": {"status": 400}},)


def test_runs_remove_the_files_of_finished_ones_beyond_the_size(desk: Desk) -> None:
    assert desk.run("--no-pr", replies=({"text": "Nothing to do."},)).returncode == 0
    assert desk.run(replies=({"text": "Nothing to do."},)).returncode == 0
    assert len(workspaces(desk)) == 2
    assert desk.run(replies=({"text": "Nothing to do."},), **SMALL).returncode == 0
    assert workspaces(desk) == []


def test_a_failed_run_is_kept_for_minutes_and_undelivered_work_for_days(desk: Desk) -> None:
    assert desk.run(replies=FAILS, **SMALL).returncode != 0
    (failed,) = workspaces(desk)
    assert desk.run("--no-pr", **SMALL).returncode == 0
    (worked,) = set(workspaces(desk)) - {failed}
    assert asyncio.run(later(desk, 9 * MINUTE_MS, **SMALL)) == []
    assert asyncio.run(later(desk, 11 * MINUTE_MS, **SMALL)) == [failed]
    assert asyncio.run(later(desk, 29 * DAY_MS, **SMALL)) == []
    assert asyncio.run(later(desk, 31 * DAY_MS, **SMALL)) == [worked]
    assert workspaces(desk) == []


def test_all_unused_workspaces_are_removed_at_once(desk: Desk) -> None:
    assert desk.run("--no-pr").returncode == 0
    assert desk.hutch("workspace", "prepare", str(desk.work), "--id", "mine").returncode == 0
    assert len(workspaces(desk)) == 2
    result = desk.hutch("workspace", "rm", "--all", "--older-than", "1h")
    assert (result.returncode, result.stdout) == (0, "0 workspaces removed, 0 bytes freed.\n"), result.stderr
    result = desk.hutch("workspace", "rm", "--all")
    assert result.returncode == 0 and result.stdout.startswith("2 workspaces removed, "), result.stderr
    assert (workspaces(desk), result.stderr) == ([], "")
    assert "removed by `hutch workspace rm`" in desk.hutch("log", "last", "--json").stdout
    for words in (
        [],
        ["mine", "--all"],
        ["mine", "--older-than", "7d"],
        ["--all", "--older-than", "soon"],
        ["--all", "--older-than", ""],
        ["--all", "--older-than", "7"],
    ):
        assert desk.hutch("workspace", "rm", *words).returncode == exit_codes.BAD_REQUEST


def test_a_session_whose_workspace_is_removed_by_name_ends(desk: Desk) -> None:
    assert desk.run("--no-pr").returncode == 0
    (id,) = workspaces(desk)
    (listed,) = desk.hutch("workspace", "ls").stdout.splitlines()
    assert listed.startswith(f"{id} copy") and " KiB " in listed
    result = desk.hutch("sessions", "prune", **SMALL)
    assert result.stderr.startswith("0 workspaces removed.\n1 workspace of idle sessions takes "), (
        result.stderr
    )
    assert (
        "more than sessions.file_retention_bytes (1 bytes). Work that was not delivered stays."
        in result.stderr
    )
    assert desk.hutch("workspace", "rm", id).returncode == 0
    assert workspaces(desk) == []
    assert " ended " in desk.hutch("sessions", "list").stdout
    assert desk.hutch("workspace", "rm", id).returncode == exit_codes.BAD_REQUEST
