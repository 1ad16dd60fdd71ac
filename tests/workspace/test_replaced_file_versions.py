"""A version that another process wrote just before a change replaces it is stored, with its author."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hutch.agent.run_setup import RunSetup
from hutch.domain.current_actor_and_author import Actor, acting
from hutch.domain.events import FileChanged
from hutch.edit.atomic_apply import edit_file
from hutch.sessions.author_work_periods import Activity
from hutch.sessions.file_change_recorder import ChangeRecorder
from tests.agent.run_setups import SetupOptions, entries, open_setup
from tests.deadline import DEADLINE_S
from tests.sessions.test_file_change_recorder import sha

pytestmark = pytest.mark.anyio

ROOT = Actor("root", "request")


@asynccontextmanager
async def raced(tmp_path: Path, content: str) -> AsyncIterator[RunSetup]:
    """A recorded workspace in which Bob's program wrote `f` after the snapshot before a change."""
    async with open_setup(tmp_path, SetupOptions({"d/f": b"old\n"}, '{"replies": []}')) as setup:
        workspace, activity = setup.context.workspace, Activity()
        changes = ChangeRecorder(workspace, setup.recorder, activity)
        await changes.start(0, is_new=True)
        setup.recorder.take_changes = changes.take_events
        tree = tmp_path / "data/workspaces/ws/tree"
        with activity.working(Actor("bob", "terminal", "1")):
            (tree / "d/f").write_text(content)
        yield setup


async def recorded(setup: RunSetup) -> list[FileChanged]:
    """The changes in the log, once they are there: snapshots are compared in a thread."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            await setup.recorder.append([])
            log = [entry.event for entry in await entries(setup.recorder)]
            if found := [event for event in log if isinstance(event, FileChanged)]:
                return found
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("how", ["write", "edit", "delete", "move", "delete directory", "move directory"])
async def test_the_replaced_version_has_its_event_and_content(tmp_path: Path, how: str) -> None:
    async with raced(tmp_path, "precious\n") as setup:
        workspace = setup.context.workspace
        files, change = workspace.files, workspace.change_observed
        with acting(ROOT):
            match how:
                case "write":
                    await change(files.write, "d/f", b"over\n")
                case "edit":
                    await change(edit_file, workspace, "d/f", [{"insert_line": 0, "new": "top\n"}], None)
                case "delete":
                    await change(files.delete, "d/f")
                case "move":
                    await change(files.move, "d/f", "g")
                case "delete directory":
                    await change(files.delete, "d")
                case "move directory":
                    await change(files.move, "d", "e")
        bobs, roots = await recorded(setup)
        stored = b"".join(workspace.snapshots.read(roots.previous_snapshot, "d/f"))
    assert (bobs.by, bobs.path, bobs.before, bobs.after) == ("bob", "d/f", sha("old\n"), sha("precious\n"))
    assert (roots.by, roots.before, stored) == ("root", sha("precious\n"), b"precious\n")


async def test_a_version_that_is_stored_already_gets_no_snapshot(tmp_path: Path) -> None:
    async with raced(tmp_path, "old\n") as setup:
        workspace = setup.context.workspace
        with acting(ROOT):
            await workspace.change_observed(workspace.files.write, "d/f", b"over\n")
        [roots] = await recorded(setup)
        assert len(await workspace.list_snapshots()) == 2
    assert roots.before == sha("old\n")
