"""Installed dependencies below a workspace: usable, writable, and in no snapshot, listing or commit."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.jail.jail_startup import open_jail
from hutch.workspace.lifecycle.workspace_builder import prepare
from hutch.workspace.lifecycle.workspace_filling import Options
from hutch.workspace.lifecycle.workspace_mount import open_workspace
from hutch.workspace.lifecycle.workspace_record_and_directories import Home, Record
from hutch.workspace.mounted_workspace_opening import open_mounted
from hutch.workspace.workspace import Workspace
from tests.workspace.preparation_fixtures import COPY, HOST, OVERLAY, fingerprint, make_home, make_project

pytestmark = pytest.mark.anyio
ROOTS = (".venv", "src/node_modules")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_home(tmp_path)


@pytest.fixture(params=[OVERLAY, COPY], ids=["overlay", "copy"])
async def record(home: Home, tmp_path: Path, request: pytest.FixtureRequest) -> Record:
    make_project(tmp_path / "project")
    options: Options = request.param
    made = await prepare(home, "w", tmp_path / "project", git=HOST, options=options)
    tree = home.layer("k") / "tree"
    (tree / ".venv/bin").mkdir(parents=True)
    (tree / ".venv/bin/tool").write_text("#!/bin/sh\necho installed\n")
    (tree / ".venv/bin/tool").chmod(0o755)
    (tree / "src/node_modules/a").mkdir(parents=True)
    (tree / "src/node_modules/a/index.js").write_text("a\n")
    (tree / "README.md").write_text("not the tracked one\n")
    made = replace(made, layers=("k",), layer_roots=ROOTS)
    made.write(home.workspace("w"))
    return made


@asynccontextmanager
async def opened(home: Home, id: str = "w") -> AsyncIterator[Workspace]:
    mount = await open_workspace(home, id)
    async with open_mounted(home, mount, home.workspace(id), HOST) as workspace:
        yield workspace


async def run(workspace: Workspace, script: str) -> str:
    async with open_jail(workspace.place) as jail:
        ran = await jail.run(["sh", "-c", script])
    assert ran.exit_code == 0, ran.stderr.decode()
    return ran.stdout.decode()


async def test_a_tracked_file_wins_over_the_layer(home: Home, record: Record) -> None:
    async with opened(home) as workspace:
        assert await run(workspace, ".venv/bin/tool; cat README.md") == "installed\n# A project\n"


async def test_changes_of_dependencies_stay_in_the_workspace(home: Home, record: Record) -> None:
    before = fingerprint(home.layer("k"))
    async with opened(home) as workspace:
        await run(workspace, "echo x >> .venv/bin/tool; rm -r src/node_modules; echo y > .venv/new")
        assert await run(workspace, "cat .venv/new; ls src") == "y\ndeep\nmain.py\n"
    assert fingerprint(home.layer("k")) == before
    async with opened(home) as workspace:
        assert await run(workspace, "cat .venv/new") == "y\n"


async def test_snapshots_and_restoring_leave_dependencies_alone(home: Home, record: Record) -> None:
    async with opened(home) as workspace:
        first = await workspace.snapshot("as it came")
        await run(workspace, "echo x >> .venv/bin/tool; rm -r src/node_modules")
        assert (await workspace.snapshot("dependencies changed")).id == first.id
        await run(workspace, "echo changed > src/main.py; rm -r .venv; mkdir .venv; echo z > .venv/own")
        second = await workspace.snapshot("a file changed")
        assert [each.path for each in await workspace.changes(first.id, second.id)] == ["src/main.py"]
        restored = await workspace.restore(first.id)
        assert (restored.changed, restored.untouched) == (("src/main.py",), ())
        assert await run(workspace, "cat src/main.py .venv/own") == "print('hello')\nz\n"


async def test_a_directory_with_dependencies_can_be_removed_and_restored(home: Home, record: Record) -> None:
    async with opened(home) as workspace:
        first = await workspace.snapshot("as it came")
        await run(workspace, "rm -r src")
        second = await workspace.snapshot("removed")
        gone = [each.path for each in await workspace.changes(first.id, second.id)]
        assert gone == ["src/deep/er/module.py", "src/main.py"]
        await workspace.restore(first.id)
        assert await run(workspace, "cat src/main.py") == "print('hello')\n"


async def test_git_and_listings_do_not_enter_dependencies(home: Home, record: Record) -> None:
    async with opened(home) as workspace:
        assert await run(workspace, "git status --porcelain --untracked-files=all") == ""
        paths = [each.path for each in (await workspace.entries(recursive=True, limit=5000)).entries]
        assert {".venv", "src/node_modules"} <= set(paths)
        assert [path for path in paths if path.startswith((".venv/", "src/node_modules/"))] == []
        inside = await workspace.entries(".venv", recursive=True)
        assert [each.path for each in inside.entries] == [".venv/bin", ".venv/bin/tool"]


async def test_dependencies_are_not_watched(home: Home, record: Record) -> None:
    async with opened(home) as workspace:
        watcher = workspace.watcher()
        try:
            watcher.arm()
            assert not any(path.startswith((".venv", "src/node_modules")) for path in watcher._armed)
        finally:
            watcher.close()


async def test_the_quota_does_not_count_the_layer(home: Home, record: Record) -> None:
    (home.layer("k") / "tree/.venv/large").write_bytes(b"x" * (4 << 20))
    async with opened(home) as workspace:
        assert workspace.quota.measure_usage().bytes < 4 << 20


async def test_the_list_of_excluded_paths_is_not_written_through_a_link(
    home: Home, record: Record, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.write_text("")
    async with opened(home) as workspace:
        await run(
            workspace, f"rm -f .git/info/exclude; mkdir -p .git/info; ln -s {outside} .git/info/exclude"
        )
    async with opened(home) as workspace:
        await run(workspace, "true")
    assert outside.read_text() == ""
