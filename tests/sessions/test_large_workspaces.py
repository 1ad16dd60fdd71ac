"""In a large workspace, a save waits for no scan, and is recorded like any other."""

import asyncio
from pathlib import Path

import pytest

from hutch.domain.current_actor_and_author import Actor, acting
from hutch.domain.events import FileChanged
from hutch.sessions.author_work_periods import Activity
from hutch.sessions.file_change_recorder import ChangeRecorder
from tests.agent.run_setups import SetupOptions, open_setup

pytestmark = pytest.mark.anyio

ADA, BEN = Actor("u1", "request"), Actor("u2", "command", "main")


async def test_saves_are_recorded_without_a_scan(tmp_path: Path) -> None:
    options = SetupOptions({"a/one": b"1\n", "a/two": b"2\n"}, '{"replies": []}')
    async with open_setup(tmp_path, options) as setup:
        workspace = setup.context.workspace
        tree = workspace.directory / "tree"
        activity = Activity()
        recorder = ChangeRecorder(workspace, setup.recorder, activity)
        await recorder.start(0, is_new=True)
        await workspace.snapshot("the first")
        workspace.large_entries = 0

        def events() -> list[tuple[str, str, str, bool]]:
            taken = [event for event in recorder.take_events() if isinstance(event, FileChanged)]
            return [(each.path, each.kind, each.by, bool(each.snapshot)) for each in taken]

        with activity.working(BEN):
            (tree / "a/one").write_text("by a process\n")
            (tree / "b").write_text("by a process\n")
        with acting(ADA):
            written = await workspace.write("a/one", b"saved\n")
            await workspace.create("new/deep/file", b"new\n")
            await workspace.edit("a/two", [{"old": "2", "new": "two"}])
        assert events() == [
            ("a/one", "modified", "u2", True),  # the version that was replaced
            ("a/one", "modified", "u1", True),
            ("new/deep/file", "created", "u1", True),
            ("a/two", "modified", "u1", True),
        ]
        assert written.before is not None
        numbers = [each.id for each in await workspace.list_snapshots()]
        contents = [(await workspace.read_snapshot(number, "a/one", 0, 99)).data for number in numbers[-4:]]
        assert contents == [b"by a process\n", b"saved\n", b"saved\n", b"saved\n"]
        with acting(ADA):
            await workspace.write(".gitignore", b"b\n")  # a rule about other files needs a scan
        assert events() == [(".gitignore", "created", "u1", True)]
        await workspace.snapshot("all")
        ignored = await asyncio.to_thread(workspace.snapshots.item, recorder.recorded, "b")
        assert ignored.section != 0
        assert events() == []


async def test_a_new_mode_that_a_save_finds_has_its_own_author(tmp_path: Path) -> None:
    async with open_setup(tmp_path, SetupOptions({"a": b"1\n"}, '{"replies": []}')) as setup:
        workspace, activity = setup.context.workspace, Activity()
        recorder = ChangeRecorder(workspace, setup.recorder, activity)
        await recorder.start(0, is_new=True)
        await workspace.snapshot("the first")
        workspace.large_entries = 0
        with activity.working(BEN):
            (workspace.directory / "tree/a").chmod(0o755)
        with acting(ADA):
            await workspace.write("a", b"saved\n")
        taken = [event for event in recorder.take_events() if isinstance(event, FileChanged)]
        assert [(each.by, each.before == each.after) for each in taken] == [("u2", True), ("u1", False)]
