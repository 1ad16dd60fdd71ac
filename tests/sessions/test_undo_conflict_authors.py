"""A refused undo names only the people whose changes are in its way."""

from pathlib import Path

import pytest

from hutch.domain import events, inputs
from hutch.domain.current_actor_and_author import AGENT
from hutch.domain.errors import WorkWouldBeLost
from hutch.domain.events import Entry, Event, FileChanged
from hutch.domain.ids import SessionId
from hutch.sessions import file_and_command_requests as requests
from hutch.sessions.changes_to_undo import find_last_run
from hutch.sessions.undo_conflict_authors import later_changes
from tests.sessions.session_server import call, serving
from tests.sessions.undo_setup import Stage

pytestmark = pytest.mark.anyio

ADA, BOB = "usr_ada", "usr_bob"
LINES = [f"line {number}\n" for number in range(1, 21)]


def text(**changed: str) -> str:
    return "".join(changed.get(f"l{number}", line) for number, line in enumerate(LINES, 1))


async def refusal(stage: Stage) -> str:
    with pytest.raises(WorkWouldBeLost) as error:
        await stage.give(inputs.Undo())
    return str(error.value)


async def test_only_those_who_changed_the_same_lines_are_named(tmp_path: Path) -> None:
    edit = call("write_file", path="a.txt", content=text(l2="agent\n", l18="agent\n"))
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, edit, files={"a.txt": text()})
        await stage.write("a.txt", text(l2="agent\n", l10="ada\n", l18="agent\n"), by=ADA)
        await stage.write("a.txt", text(l2="bob\n", l10="ada\n", l18="agent\n"), by=BOB)
        await stage.write("a.txt", text(l2="bob\n", l10="ada\n", l14="cleo\n", l18="agent\n"), by="usr_cleo")
        assert "a.txt (usr_bob changed the same lines)." in await refusal(stage)
        await stage.write("a.txt", text(l2="bob\n", l10="ada\n", l14="cleo\n", l18="ada\n"), by=ADA)
        assert "a.txt (usr_bob and usr_ada changed the same lines)." in await refusal(stage)


async def test_only_those_who_deleted_or_created_a_file_again_are_named(tmp_path: Path) -> None:
    steps = [call("write_file", path="gone.txt", content="agent\n"), call("bash", command="rm again.txt")]
    files = {"gone.txt": "x\n", "again.txt": "x\n"}
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, *steps, files=files)
        await stage.write("gone.txt", "agent\nada\n", by=ADA)
        await stage.run("rm gone.txt", by=BOB)
        await stage.write("again.txt", "ada\n", by=ADA)
        await stage.write("again.txt", "ada\nbob\n", by=BOB)
        found = await refusal(stage)
    assert "gone.txt (usr_bob deleted it)" in found
    assert "again.txt (usr_ada created it again)" in found


async def test_a_change_that_is_not_clear_names_the_others_who_may_have_made_it(tmp_path: Path) -> None:
    spins = "while :; do :; done"
    steps = [
        call("ask_user", question="Go?"),
        call("bash", command="sed -i 's/line 2$/agent/' a.txt; echo x > new.txt; rm b.txt; sleep 0.3"),
    ]
    async with serving(tmp_path / "home") as server:
        stage = await Stage.waiting(server, tmp_path, {"a.txt": text(), "b.txt": "b\n"}, script=steps)
        asked = requests.RunCommand(spins, "spinning", yield_s=0.1)
        assert (await server.host.call(stage.id, asked, by=BOB)).running
        await stage.finish()
        assert "a.txt (usr_bob may have made the change)" in await refusal(stage)
        undone = await stage.undo(inputs.Undo(merge=True))
        assert (undone.marked, undone.kept, undone.reasons) == (
            ("a.txt",),
            ("new.txt",),
            {"new.txt": "unclear"},
        )
        marked = "<<<<<<< now\nagent\n=======\nline 2\n>>>>>>> before the run of 'Write.'\n"
        assert await stage.read("a.txt") == text(l2=marked)
        assert await stage.read("b.txt") == "b\n"


def test_changes_of_others_since_the_targets_first_change_count() -> None:
    def changed(path: str, by: str = "", cause: str = "tool", **more: object) -> FileChanged:
        fields = {"kind": "modified", "by": by, "cause": cause, "previous_snapshot": 1, "snapshot": 2, **more}
        return FileChanged.model_validate({"path": path, **fields})

    log: list[Event] = [
        changed("a", BOB, "request"),
        events.RunStarted(run_id="run_1", prompt="Task", persona="", model=""),
        changed("a", AGENT),
        changed("a", ADA, "request"),
        changed("b", ADA, "request"),
        changed("a/b", BOB, "request"),
        changed("a", cause="job", possible_authors=(ADA, BOB)),
        changed("a", ADA, "undo"),
    ]
    entries = [Entry(SessionId("ses_1"), seq, 0, event, "") for seq, event in enumerate(log, 1)]
    target = find_last_run(entries)
    assert target is not None
    assert later_changes(entries, target, "a") == [log[3], log[6]]
    assert later_changes(entries, target, "a", around=True) == [log[3], log[5], log[6]]
