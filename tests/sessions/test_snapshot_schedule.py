"""Snapshots follow pauses and commands of users, and long work without a pause."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hutch.agent.run_setup import RunSetup
from hutch.domain.current_actor_and_author import Actor, acting
from hutch.domain.events import Event, FileChanged, SnapshotTaken
from hutch.sessions.author_work_periods import Activity
from hutch.sessions.file_change_recorder import ChangeRecorder
from hutch.sessions.snapshot_schedule import AFTER_PAUSE, WHILE_WORKING, SnapshotSchedule
from tests.agent.run_setups import SetupOptions, entries, open_setup
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def watching(tmp_path: Path, *, max_interval_s: float) -> AsyncIterator[tuple[RunSetup, Path]]:
    """A watched workspace, and its directory."""
    async with open_setup(tmp_path, SetupOptions({"a": b"x"}, '{"replies": []}')) as setup:
        recorder, workspace, activity = setup.recorder, setup.context.workspace, Activity()
        changes = ChangeRecorder(workspace, recorder, activity)
        await changes.start(0, is_new=True)
        watch = SnapshotSchedule(workspace, recorder, activity, lambda: False, max_interval_s=max_interval_s)

        def note(event: Event) -> None:
            activity.note(event)
            watch.note(event)

        recorder.take_changes, recorder.on_report = changes.take_events, note
        watch.start()
        assert watch._task is not None
        await watch._task  # no signal comes from a directory that is not watched yet
        tree = tmp_path / "data/workspaces/ws/tree"
        yield setup, tree
        await watch.close()


async def reasons(setup: RunSetup, path: str) -> list[str]:
    """The reasons of the recorded snapshots, once a path was recorded."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            found = [entry.event for entry in await entries(setup.recorder)]
            if any(isinstance(each, FileChanged) and each.path == path for each in found):
                taken = [each.reason for each in found if isinstance(each, SnapshotTaken)]
                if taken:
                    return taken
            await asyncio.sleep(0.02)


async def test_a_pause(tmp_path: Path) -> None:
    async with watching(tmp_path, max_interval_s=3600) as (setup, tree):
        (tree / "by_hand").write_text("x")
        assert await reasons(setup, "by_hand") == [AFTER_PAUSE]


async def test_a_command_of_a_user_and_none_of_the_agent(tmp_path: Path) -> None:
    async with watching(tmp_path, max_interval_s=3600) as (setup, _):
        with acting(Actor("u1", "request")):
            await setup.context.shells.shell("main").run("echo x > by_command")
        assert await reasons(setup, "by_command") == ["after a command in main"]
        entries = await setup.recorder.log.read(setup.recorder.session_id)
        assert [entry.event.by for entry in entries if isinstance(entry.event, SnapshotTaken)] == ["u1"]


async def test_work_without_a_pause(tmp_path: Path) -> None:
    async with watching(tmp_path, max_interval_s=0.5) as (setup, _):
        endless = "while :; do echo x >> log; sleep 0.02; done"
        with acting(Actor("u1", "request")):
            result = await setup.context.shells.shell("main").run(endless, yield_s=0.05)
        found: set[str] = set()
        while WHILE_WORKING not in found:  # a busy machine makes pauses of its own before that
            found = set(await reasons(setup, "log"))
            await asyncio.sleep(0.02)
        assert found <= {WHILE_WORKING, AFTER_PAUSE}
        await setup.context.shells.background.get(str(result.id)).kill()
