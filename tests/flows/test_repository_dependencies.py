"""Dependencies of a repository: installed once, and shared only by its own sessions."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hutch.domain.dependency_plan import Service
from hutch.domain.events import EnvironmentBuilt, Event
from hutch.environment.layers.layer_store import Layer
from hutch.environment.plan_selection import EnvironmentSettings
from hutch.flows.repository_dependencies import Environments, Provided
from hutch.jail.jail_startup import open_jail
from hutch.jail.policy import AGENT
from hutch.workspace.lifecycle.workspace_and_cache_removal import discard
from hutch.workspace.lifecycle.workspace_builder import prepare
from hutch.workspace.lifecycle.workspace_filling import Options
from hutch.workspace.lifecycle.workspace_mount import open_workspace
from hutch.workspace.lifecycle.workspace_record_and_directories import Home, Record
from tests.forge.repositories import commit, git, make_repository
from tests.workspace.preparation_fixtures import COPY, HOST, OVERLAY, make_home

pytestmark = pytest.mark.anyio

SETUP = "cat tool.txt > installed; mkdir -p .hutch-cache/uv; date +%N >> .hutch-cache/uv/times; echo done"
FILES = {"tool.txt": "version 1\n", "src/main.py": "x = 1\n", "installed.txt": "tracked\n"}
SETTINGS = EnvironmentSettings(
    setup=(SETUP,),
    inputs=("tool.txt",),
    outputs=("installed", "made", "src/generated"),
    is_trusted=True,
    max_bytes=1 << 30,
    total_bytes=1 << 30,
    retention_days=30,
    timeout_s=60,
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_home(tmp_path)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    make_repository(tmp_path / "project", FILES)
    return tmp_path / "project"


def environments(home: Home, **changes: Any) -> Environments:
    settings = replace(SETTINGS, **changes)
    return Environments(
        home=home, git=HOST, settings=lambda record: settings, policy=lambda record: AGENT, indexes={}
    )


async def workspace(home: Home, project: Path, id: str = "w", options: Options = COPY) -> Record:
    return await prepare(home, id, project, git=HOST, options=options)


class Log:
    """Collects events by their types."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    async def append(self, events: Sequence[Event]) -> None:
        self.events += events

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]


async def read(home: Home, record: Record, path: str) -> str:
    mount = await open_workspace(home, record.id)
    try:
        async with open_jail(mount.place) as jail:
            ran = await jail.run(["cat", path])
        assert ran.exit_code == 0, ran.stderr.decode()
        return ran.stdout.decode()
    finally:
        mount.close()


@pytest.mark.parametrize("options", [COPY, OVERLAY], ids=["copy", "overlay"])
async def test_the_second_session_shares_the_layer_of_the_first(
    home: Home, project: Path, options: Options
) -> None:
    made = environments(home)
    log = Log()
    first = await made.provide("usr_1", await workspace(home, project, "a", options), log.append)
    second = await made.provide("usr_1", await workspace(home, project, "b", options), log.append)
    assert log.types == [
        "environment.build_started",
        "environment.built",
        "environment.attached",
        "environment.attached",
    ]
    assert first.record.layers == second.record.layers != ()
    assert await read(home, second.record, "installed") == "version 1\n"
    assert await read(home, second.record, "installed.txt") == "tracked\n"
    assert Record.read(home.workspace("b")) == second.record
    assert "installed already" in second.record.environment


async def test_an_optional_command_that_failed_is_reported_and_built_again(home: Home, project: Path) -> None:
    """Of another tool's file, such as a download of postCreateCommand that failed for a moment."""
    script = "mkdir -p vendor && date +%N > vendor/mark && echo 'error: package six was not found' && false\n"
    commit(project, {".openhands/setup.sh": script})
    made, log = environments(home, setup=(), inputs=(), auto=True), Log()
    provided = await made.provide("usr_1", await workspace(home, project, "a"), log.append)
    reason = (
        "`bash .openhands/setup.sh` failed with exit code 1. It printed: error: package six was not found"
    )
    [built] = [event for event in log.events if isinstance(event, EnvironmentBuilt)]
    assert built.failed == (reason,)
    assert provided.warnings == (f"A command of the set-up failed: {reason}",)
    assert f"packages may be missing (untrusted output):\n  {reason}" in provided.record.environment
    used = await made.build("usr_1", await workspace(home, project, "b"))
    discard(home.workspace("a"))
    again = await made.build("usr_1", await workspace(home, project, "c"))
    assert isinstance(used, Layer) and isinstance(again, Layer)
    assert (used.key, again.key) == (built.layer, built.layer)
    assert again.created_ms > used.created_ms


async def test_another_commit_with_the_same_inputs_shares_the_layer(home: Home, project: Path) -> None:
    made = environments(home)
    first = await made.provide("usr_1", await workspace(home, project, "a"))
    commit(project, {"src/main.py": "x = 2\n"})
    second = await made.provide("usr_1", await workspace(home, project, "b"))
    assert first.record.layers == second.record.layers != ()


async def test_a_changed_input_builds_again_with_the_downloads(home: Home, project: Path) -> None:
    made = environments(home)
    first = await made.provide("usr_1", await workspace(home, project, "a"))
    commit(project, {"tool.txt": "version 2\n"})
    second = await made.provide("usr_1", await workspace(home, project, "b"))
    assert first.record.layers != second.record.layers
    assert await read(home, second.record, "installed") == "version 2\n"
    assert len((await read(home, second.record, ".hutch-cache/uv/times")).split()) == 2


async def test_downloads_of_a_commit_that_is_no_ancestor_are_not_used(home: Home, project: Path) -> None:
    """The attack: a branch leaves a forged package in the cache, for the next build of main."""
    made, main = environments(home), git(project, "rev-parse", "HEAD")
    commit(project, {"tool.txt": "of the branch\n"})
    await made.provide("usr_1", await workspace(home, project, "a"))
    first = await prepare(home, "b", project, git=HOST, options=COPY, revision=main)
    second = await made.provide("usr_1", first)
    assert len((await read(home, second.record, ".hutch-cache/uv/times")).split()) == 1


async def test_downloads_of_changed_files_are_not_used(home: Home, project: Path) -> None:
    """The attack: an agent changes an input of its session, and has a layer built for it."""
    made = environments(home)
    attacked = await workspace(home, project, "a")
    (home.workspace("a") / "tree/tool.txt").write_text("of the agent\n")
    await made.build("usr_1", attacked)
    second = await made.provide("usr_1", await workspace(home, project, "b"))
    assert len((await read(home, second.record, ".hutch-cache/uv/times")).split()) == 1


async def test_owners_and_repositories_do_not_share(home: Home, project: Path, tmp_path: Path) -> None:
    made = environments(home)
    make_repository(tmp_path / "other", FILES)
    found = [
        await made.provide("usr_1", await workspace(home, project, "a")),
        await made.provide("usr_2", await workspace(home, project, "b")),
        await made.provide("usr_1", await workspace(home, tmp_path / "other", "c")),
    ]
    assert len({each.record.layers for each in found}) == 3
    shared = environments(home, share_between_owners=True)
    both = [
        await shared.provide(owner, await workspace(home, project, owner)) for owner in ("usr_1", "usr_2")
    ]
    assert len({each.record.layers for each in both}) == 1


async def test_after_a_failure_the_session_goes_on_without(home: Home, project: Path) -> None:
    made = environments(home, setup=("echo the last line; exit 4",))
    log = Log()
    provided = await made.provide("usr_1", await workspace(home, project), log.append)
    assert log.types == ["environment.build_started", "environment.failed"]
    assert provided.record.layers == ()
    assert "exit code 4" in provided.warnings[0]
    assert "the last line" in provided.record.environment
    assert await read(home, provided.record, "src/main.py") == "x = 1\n"


async def test_a_set_up_of_a_repository_waits_for_its_acceptance(home: Home, project: Path) -> None:
    made = environments(home, is_trusted=False)
    record = await workspace(home, project)
    refused = await made.provide("usr_1", record)
    assert (refused.record.layers, "nobody has accepted" in refused.warnings[0]) == ((), True)
    assert "nobody has accepted the set-up yet" in Record.read(home.workspace(record.id)).environment
    plan = (await made.prepare("usr_1", record)).plan
    await made.accept("usr_1", record, plan)
    assert (await made.provide("usr_2", await workspace(home, project, "of-another"))).record.layers == ()
    assert (await made.provide("usr_1", record)).record.layers != ()
    changed = environments(home, is_trusted=False, setup=(f"{SETUP}; echo more",))
    assert (await changed.provide("usr_1", await workspace(home, project, "changed"))).record.layers == ()


async def test_auto_needs_no_acceptance(home: Home, project: Path) -> None:
    made = environments(home, is_trusted=False, auto=True)
    assert (await made.provide("usr_1", await workspace(home, project))).record.layers != ()


async def test_without_a_set_up_the_agent_learns_of_services_and_variables_apply(
    home: Home, project: Path
) -> None:
    """A dev container may set variables and nothing else."""
    commit(project, {".devcontainer/devcontainer.json": '{"containerEnv": {"MODE": "dev"}}'})
    made = environments(home, setup=(), services=(Service("db", "postgres", 5432),))
    await made.provide("usr_1", await workspace(home, project))
    record = Record.read(home.workspace("w"))
    assert "db on port 5432" in record.environment
    assert record.variables == {"MODE": "dev"}


async def test_only_paths_that_the_repository_lacks_are_hidden(home: Home, project: Path) -> None:
    """A set-up that writes beside tracked files must not hide these from diffs."""
    made = environments(
        home, setup=("mkdir src; echo a > src/generated; echo b > src/main.py; echo c > made",)
    )
    provided = await made.provide("usr_1", await workspace(home, project))
    assert provided.record.layer_roots == (".hutch-cache", "made", "src/generated")
    assert await read(home, provided.record, "src/main.py") == "x = 1\n"


async def test_builds_of_one_layer_run_once(home: Home, project: Path) -> None:
    made = environments(home)
    records = [await workspace(home, project, f"w{number}") for number in range(3)]
    found: dict[str, Provided] = {}
    log = Log()

    async def provide(record: Record) -> None:
        found[record.id] = await made.provide("usr_1", record, log.append)

    await asyncio.gather(*map(provide, records))
    assert log.types.count("environment.build_started") == 1
    assert len({each.record.layers for each in found.values()}) == 1
