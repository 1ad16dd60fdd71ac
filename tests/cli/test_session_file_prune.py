"""`hutch sessions prune` removes only expired workspaces."""

import asyncio
import shutil
from pathlib import Path

import pytest

from hutch import settings
from hutch.app.session_file_retention import retention_of
from hutch.cli import exit_codes
from hutch.flows.session_file_retention import DAY_MS
from hutch.store.event_log import open_log
from hutch.system.clock_without_jumps import wall_ms
from tests.cli.project_with_failing_test import Project

MINUTE_MS = 60_000


@pytest.fixture
def project(tmp_path: Path) -> Project:
    tmp_path.chmod(0o755)
    return Project(tmp_path)


async def later(project: Project, later_ms: int, **env: str) -> list[str]:
    loaded = settings.load(environ=project.environment(**env))
    paths = loaded.paths
    async with open_log(paths.database, paths.blobs, paths.signing_key) as log:
        gone = await retention_of(loaded, log).sweep(at_ms=wall_ms() + later_ms)
        return [each.workspace_id for each in gone]


async def days_later(project: Project, days: int) -> list[str]:
    return await later(project, days * DAY_MS)


def workspaces(project: Project) -> list[str]:
    return sorted(path.name for path in (project.place / "home/data/workspaces").iterdir())


def test_the_workspace_of_a_run_is_removed_in_time_and_one_made_by_hand_is_not(project: Project) -> None:
    place = project.place / "home/data/workspaces"
    assert project.run().returncode == 0
    (ran,) = [path.name for path in place.iterdir()]
    assert project.hutch("workspace", "prepare", str(project.work), "--id", "mine").returncode == 0
    result = project.hutch("sessions", "prune")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "0 workspaces removed.\n")
    assert asyncio.run(days_later(project, 29)) == []
    assert asyncio.run(days_later(project, 31)) == [ran]
    assert [path.name for path in place.iterdir()] == ["mine"]
    assert "run.started" in project.hutch("log", "last", "--json").stdout


SMALL = {"HUTCH_SESSIONS__FILE_RETENTION_BYTES": "1"}
FAILS = ({"fault": {"status": 400}},)


def test_runs_remove_the_files_of_finished_ones_beyond_the_size(project: Project) -> None:
    assert project.run("--no-pr", replies=({"text": "Nothing to do."},)).returncode == 0
    assert project.run(replies=({"text": "Nothing to do."},)).returncode == 0
    assert len(workspaces(project)) == 2
    assert project.run(replies=({"text": "Nothing to do."},), **SMALL).returncode == 0
    assert workspaces(project) == []


def test_the_newest_failed_run_is_kept_for_minutes_and_older_ones_go_at_once(project: Project) -> None:
    assert project.run(replies=FAILS, **SMALL).returncode != 0
    (first,) = workspaces(project)
    assert project.run(replies=FAILS, **SMALL).returncode != 0
    (second,) = workspaces(project)
    assert first != second
    assert asyncio.run(later(project, 9 * MINUTE_MS, **SMALL)) == []
    assert asyncio.run(later(project, 11 * MINUTE_MS, **SMALL)) == [second]


def test_undelivered_work_is_kept_for_days_whatever_its_size(project: Project) -> None:
    assert project.run("--no-pr", **SMALL).returncode == 0
    (worked,) = workspaces(project)
    assert asyncio.run(later(project, 29 * DAY_MS, **SMALL)) == []
    assert asyncio.run(later(project, 31 * DAY_MS, **SMALL)) == [worked]
    assert workspaces(project) == []


def test_files_that_are_gone_are_not_counted(project: Project) -> None:
    for _ in range(2):
        assert project.run("--no-pr", **SMALL).returncode == 0
    shutil.rmtree(project.place / "home/data/workspaces" / workspaces(project)[0])
    result = project.hutch("sessions", "prune", **SMALL)
    assert result.stderr.splitlines()[1].startswith("1 workspace of idle sessions takes ")
    assert len(project.hutch("workspace", "ls").stdout.splitlines()) == 1


def test_all_unused_workspaces_are_removed_at_once(project: Project) -> None:
    assert project.run("--no-pr").returncode == 0
    assert project.hutch("workspace", "prepare", str(project.work), "--id", "mine").returncode == 0
    assert len(workspaces(project)) == 2
    result = project.hutch("workspace", "rm", "--all", "--older-than", "1h")
    assert (result.returncode, result.stdout) == (0, "0 workspaces removed, 0 bytes freed.\n"), result.stderr
    result = project.hutch("workspace", "rm", "--all")
    assert result.returncode == 0 and result.stdout.startswith("2 workspaces removed, "), result.stderr
    assert (workspaces(project), result.stderr) == ([], "")
    assert "removed by `hutch workspace rm`" in project.hutch("log", "last", "--json").stdout
    for words in (
        [],
        ["mine", "--all"],
        ["mine", "--older-than", "7d"],
        ["--all", "--older-than", "soon"],
        ["--all", "--older-than", ""],
        ["--all", "--older-than", "7"],
    ):
        assert project.hutch("workspace", "rm", *words).returncode == exit_codes.BAD_REQUEST


def test_a_session_whose_workspace_is_removed_by_name_ends(project: Project) -> None:
    assert project.run("--no-pr").returncode == 0
    (id,) = workspaces(project)
    (listed,) = project.hutch("workspace", "ls").stdout.splitlines()
    assert listed.startswith(f"{id} copy") and " KiB " in listed
    result = project.hutch("sessions", "prune", **SMALL)
    assert result.stderr.startswith("0 workspaces removed.\n1 workspace of idle sessions takes "), (
        result.stderr
    )
    assert (
        "more than sessions.file_retention_bytes (1 bytes). Work that was not delivered stays."
        in result.stderr
    )
    assert project.hutch("workspace", "rm", id).returncode == 0
    assert workspaces(project) == []
    assert " ended " in project.hutch("sessions", "list").stdout
    assert project.hutch("workspace", "rm", id).returncode == exit_codes.BAD_REQUEST
