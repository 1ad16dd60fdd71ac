"""An undo says what it cannot do, and finds files where others have moved them."""

import hashlib
from pathlib import Path

import pytest

from hutch.domain import inputs
from hutch.domain.errors import Conflict, WorkWouldBeLost
from hutch.domain.events import CommandEnded, CommandStarted, Entry, Event, FileChanged, SnapshotTaken
from hutch.domain.ids import SessionId
from hutch.sessions import file_and_command_requests as requests
from hutch.sessions.step_changes_to_undo import find_step
from tests.sessions.session_server import serving
from tests.sessions.test_undo_target_versions import Place, changed
from tests.sessions.undo_setup import Stage

pytestmark = pytest.mark.anyio

LINES = "1\n2\n3\n4\n5\n6\n7\n8\n"


async def test_an_edit_is_taken_back_in_a_file_that_another_has_moved(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.empty(server)
        await stage.write("d/f.txt", LINES)
        await stage.write("d/f.txt", LINES.replace("2", "2x"))
        edit = await stage.seq_of_change("d/f.txt")
        await server.host.call(stage.id, requests.MoveFile("d/f.txt", "d/g.txt"), by="usr_bob")
        await server.host.call(stage.id, requests.MoveFile("d", "e"), by="usr_bob")
        await stage.write("e/g.txt", LINES.replace("2", "2x").replace("8", "8 of bob"), by="usr_bob")
        undone = await stage.undo(inputs.Undo(step=edit))
        assert undone.files == ("e/g.txt",)
        assert await stage.read("e/g.txt") == LINES.replace("8", "8 of bob")
        assert await stage.files() == ["e", "e/g.txt"]


async def test_the_creation_of_a_file_that_another_has_moved_is_a_conflict(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.empty(server)
        await stage.write("f.txt", LINES)
        created = await stage.seq_of_change("f.txt")
        await server.host.call(stage.id, requests.MoveFile("f.txt", "g.txt"), by="usr_bob")
        with pytest.raises(WorkWouldBeLost, match=r"g\.txt \(usr_bob changed it") as error:
            await stage.give(inputs.Undo(step=created))
        assert error.value.paths == ("g.txt",)
        assert await stage.read("g.txt") == LINES
        undone = await stage.undo(inputs.Undo(step=created, discard=True))
        assert (undone.files, await stage.files()) == (("g.txt",), [])


async def test_a_file_that_became_a_pipe_is_brought_back(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.empty(server)
        await stage.write("a.txt", LINES)
        await stage.run("rm a.txt; mkfifo a.txt")
        await server.host.call(stage.id, requests.TakeSnapshot("now"), by="usr_x")
        replaced = await stage.seq("file.changed", path="a.txt", after=None)
        await stage.undo(inputs.Undo(step=replaced))
        assert await stage.read("a.txt") == LINES


async def test_an_undo_without_a_run_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.empty(server)
        await stage.write("a.txt", LINES)
        with pytest.raises(Conflict, match="There is no run to undo"):
            await stage.give(inputs.Undo())


def test_a_step_has_the_uncertain_changes_while_its_command_was_at_work() -> None:
    unclear = {"possible_authors": ("ada", "bob"), "by": ""}
    events: list[Event] = [
        CommandStarted(command="make", shell="main", by="bob", cwd="/"),
        changed("during", 1, 2, **unclear),
        SnapshotTaken(snapshot=2, tree="", reason="after a pause"),
        changed("adas", 2, 3, possible_authors=("ada", "cleo"), by=""),
        CommandEnded(command="make", shell="main", by="bob", exit_code=0, duration_s=1, cwd="/"),
        changed("after", 3, 4, **unclear),
        SnapshotTaken(snapshot=4, tree="", reason="after a command"),
        SnapshotTaken(snapshot=5, tree="", reason="after a pause"),
        changed("later", 5, 6, **unclear),
    ]
    entries = [Entry(SessionId("s"), seq, 0, event, "") for seq, event in enumerate(events, 1)]
    found = find_step(entries, 1)
    paths = [each.event.path for each in found.changes if isinstance(each.event, FileChanged)]
    assert paths == ["during", "after"]
    assert not any(each.is_clear for each in found.changes)


def test_a_version_that_has_another_hash_than_the_log_is_not_stored(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.take(a="old")
    place.take(a="new")
    for text, is_stored in (("old", True), ("in between", False)):
        event = changed("a", 1, 2, before=hashlib.sha256(text.encode()).hexdigest())
        found = place.read([*find_step([Entry(SessionId("s"), 1, 0, event, "")], 1).changes], [event])
        assert [each.is_stored for each in found.changes] == [is_stored]
