"""Undo of a run or a step merges with later changes by others; redo takes it back."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hutch.agent.conversation import Conversation
from hutch.domain import inputs
from hutch.domain.errors import BadRequest, Conflict, NotFound, WorkWouldBeLost
from hutch.domain.events import FileChanged
from hutch.domain.session_events import InputProcessed
from hutch.flows import session_fork, sessions
from hutch.flows.run_execution.agent_work_and_tests import REOPENED
from hutch.llm.interface import FromTool, FromUser
from hutch.sessions import file_and_command_requests as requests
from hutch.sessions.state_before_last_run import effective_entries
from tests.sessions.session_server import call, owner, serving, until
from tests.sessions.undo_setup import Stage

pytestmark = pytest.mark.anyio

LINES = "".join(f"line {number}\n" for number in range(1, 21))
EDIT = call("edit_file", path="app.py", edits=[{"old": "line 2\n", "new": "agent\n"}])
FILES = {"app.py": LINES}


def edited(**lines: str) -> str:
    """The file with other lines: `_2="agent"` is its second."""
    return "".join(f"{lines.get(f'_{number}', f'line {number}')}\n" for number in range(1, 21))


async def test_later_changes_of_others_in_the_same_file_are_kept(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, EDIT, files=FILES)
        assert await stage.read("app.py") == edited(_2="agent")
        await stage.write("app.py", edited(_2="agent", _15="mine"))
        undone = await stage.undo()
        assert await stage.read("app.py") == edited(_15="mine")
        assert (undone.files, undone.merged) == (("app.py",), ("app.py",))
        changed = [each for each in await stage.events() if isinstance(each, FileChanged)][-1]
        assert (changed.path, changed.cause, changed.by) == ("app.py", "undo", stage.caller.user.id)


async def test_a_conflict_names_file_and_author_and_changes_nothing(tmp_path: Path) -> None:
    new = call("write_file", path="new.py", content="agent\n")
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, EDIT, new, files=FILES)
        bob = (await owner(server, "bob", "member")).user.id
        await stage.write("app.py", edited(_2="mine"), by=bob)
        await stage.run("echo mine >> new.py", by=bob)
        with pytest.raises(WorkWouldBeLost) as refused:
            await stage.give(inputs.Undo())
        assert refused.value.paths == ("app.py", "new.py")
        assert "app.py (bob changed the same lines), new.py (bob changed it after it" in str(refused.value)
        assert [await stage.read(path) for path in ("app.py", "new.py")] == [
            edited(_2="mine"),
            "agent\nmine\n",
        ]
        assert not any(each.type == "session.rewound" for each in await stage.events())


async def test_an_undo_whose_check_takes_long_is_accepted_and_refused_later(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, EDIT, files=FILES)
        await stage.write("app.py", edited(_2="mine"))
        count = len(await stage.events())
        at_once = replace(server.services, max_check_s=0.0)
        given = await sessions.give(at_once, stage.caller, stage.id, inputs.Undo())
        processed = (await until(server, stage.id, "input.processed", after=count))[-1]
        assert isinstance(processed, InputProcessed) and processed.input == given.seq
        assert "app.py" in processed.refused
        assert await stage.read("app.py") == edited(_2="mine")
        await stage.write("app.py", edited(_2="agent", _15="mine"))
        await sessions.give(at_once, stage.caller, stage.id, inputs.Undo())
        await until(server, stage.id, "session.rewound", after=count)
        assert await stage.read("app.py") == edited(_15="mine")


MARKED = "<<<<<<< now\nmine\n=======\nline 2\n>>>>>>> before the run of 'Work.'"


@pytest.mark.parametrize(
    ("option", "expected", "listed"),
    [
        ("merge", edited(_2=MARKED), {"marked": ("app.py",)}),
        ("keep", edited(_2="mine"), {"kept": ("app.py",)}),
        ("discard", LINES, {"discarded": ("app.py",), "discarded_count": 1}),
    ],
)
async def test_the_user_decides_about_conflicts(
    tmp_path: Path, option: str, expected: str, listed: dict[str, Any]
) -> None:
    new = call("write_file", path="new.py", content="agent\n")
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, EDIT, new, files=FILES)
        await stage.write("app.py", edited(_2="mine"))
        undone = await stage.undo(inputs.Undo.model_validate({option: True}))
        assert await stage.read("app.py") == expected
        assert await stage.read("new.py") is None
        empty = {"merged": (), "marked": (), "kept": (), "discarded": (), "discarded_count": 0}
        assert {name: getattr(undone, name) for name in empty} == {**empty, **listed}
        before = await server.host.call(stage.id, requests.Diff(undone.before, undone.after))
        assert [each.path for each in before.files] == [*(["app.py"] if option != "keep" else []), "new.py"]


async def test_one_tool_call_is_undone_and_the_agent_reads_about_it(tmp_path: Path) -> None:
    calls = {
        "calls": [
            {"tool": "write_file", "args": {"path": "a.txt", "content": "a\n"}},
            {"tool": "write_file", "args": {"path": "b.txt", "content": "b\n"}},
        ]
    }
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, calls, files=FILES)
        changed = await stage.seq("file.changed", path="a.txt")
        step = await stage.seq("tool.called", call_id=(await stage.events())[changed - 1].call_id)  # type: ignore[attr-defined]
        undone = await stage.undo(inputs.Undo(step=step))
        assert (undone.title, undone.files) == ("the call of write_file", ("a.txt",))
        assert await stage.files() == ["app.py", "b.txt"]
        await stage.prompt("What now?")
        live = server.host.live(stage.id)  # type: ignore[attr-defined]
        messages = Conversation.of(effective_entries(await live.entries())).messages
        notice = FromUser(
            "[Hutch: A user has undone the call of write_file. These files have changed: a.txt. Read them "
            "before you edit them.]"
        )
        assert notice in messages
        assert not isinstance(messages[messages.index(notice) + 1], FromTool)


async def test_a_persons_command_and_a_single_change_are_undone(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, EDIT, files=FILES)
        await stage.run("echo one > one.txt; echo two > two.txt; sed -i 's/line 15/mine/' app.py")
        await stage.seq_of_change("one.txt")
        undone = await stage.undo(inputs.Undo(step=await stage.seq("command.started", shell="main")))
        assert undone.files == ("app.py", "one.txt", "two.txt")
        assert (await stage.files(), await stage.read("app.py")) == (["app.py"], edited(_2="agent"))
        await stage.undo(inputs.Undo(step=await stage.seq("file.changed", path="app.py", by="agent")))
        assert await stage.read("app.py") == LINES


async def test_a_later_change_of_permissions_is_kept(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, EDIT, files=FILES)
        await stage.run("echo one > a.txt")
        await stage.seq_of_change("a.txt")
        await stage.run("echo two > a.txt")
        step = await stage.seq("command.started", shell="main")
        await server.host.call(stage.id, requests.TakeSnapshot("here"))  # so that the next change is another
        await stage.run("chmod 600 a.txt")
        await stage.undo(inputs.Undo(step=step))
        assert await stage.read("a.txt") == "one\n"
        await stage.run("test $(stat -c %a a.txt) = 600")


async def test_an_earlier_run_is_undone_as_a_step(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, EDIT, files=FILES)
        first = await stage.seq("run.started")
        await stage.prompt("More.")
        undone = await stage.undo(inputs.Undo(step=first))
        assert (undone.title, undone.files) == ("the run of 'Work.'", ("app.py",))
        assert await stage.read("app.py") == LINES


async def test_an_undo_and_a_redo_are_steps_that_can_be_undone(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, EDIT, files=FILES)
        await stage.undo()
        back = await stage.undo(inputs.Undo(step=await stage.seq("session.rewound")))
        assert (back.title, back.files) == ("the undo of the run of 'Work.'", ("app.py",))
        assert await stage.read("app.py") == edited(_2="agent")
        await stage.write("app.py", edited(_2="agent", _15="mine"))
        again = await stage.undo(inputs.Undo(step=await stage.seq("changes.undone")))
        assert (again.title, again.merged) == ("the undo of the undo of the run of 'Work.'", ("app.py",))
        assert await stage.read("app.py") == edited(_15="mine")
        await stage.undo(inputs.Redo())
        assert await stage.read("app.py") == edited(_2="agent", _15="mine")
        await stage.undo(inputs.Undo(step=await stage.seq("session.redone")))
        assert await stage.read("app.py") == edited(_15="mine")


async def test_an_undo_before_the_last_run_is_taken_back_as_a_step(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, EDIT, files=FILES)
        await stage.undo(inputs.Undo(step=await stage.seq("run.started")))
        step = await stage.seq("changes.undone")
        await stage.prompt("Something else.")
        with pytest.raises(Conflict, match=rf"hutch undo --step {step}`"):
            await stage.give(inputs.Redo())
        await stage.undo(inputs.Undo(step=step))
        assert await stage.read("app.py") == edited(_2="agent")


async def test_a_step_must_be_a_change(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, EDIT, files=FILES)
        with pytest.raises(NotFound, match="no event 9999"):
            await stage.give(inputs.Undo(step=9999))
        with pytest.raises(BadRequest, match=r"is model\.replied, which changes no files"):
            await stage.give(inputs.Undo(step=await stage.seq("model.replied")))


async def test_redo_restores_files_and_conversation(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, EDIT, files=FILES)
        live = server.host.live(stage.id)  # type: ignore[attr-defined]
        counted = len(effective_entries(await live.entries()))
        await stage.undo()
        assert len(effective_entries(await live.entries())) < counted
        await stage.write("app.py", edited(_15="mine"))
        redone = await stage.undo(inputs.Redo())
        assert (redone.title, redone.merged) == ("the undo of the last run", ("app.py",))
        assert await stage.read("app.py") == edited(_2="agent", _15="mine")
        assert len(effective_entries(await live.entries())) >= counted
        with pytest.raises(Conflict, match="nothing to redo"):
            await stage.give(inputs.Redo())
        await stage.undo()  # and once more
        assert await stage.read("app.py") == edited(_15="mine")


async def test_undos_are_redone_from_the_last_to_the_first(tmp_path: Path) -> None:
    second = call("write_file", path="b.txt", content="b\n")
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, EDIT, {"text": "Done."}, second, files=FILES)
        await stage.prompt("More.")
        await stage.undo()
        await stage.undo()
        assert (await stage.files(), await stage.read("app.py")) == (["app.py"], LINES)
        await stage.undo(inputs.Redo())
        assert (await stage.files(), await stage.read("app.py")) == (["app.py"], edited(_2="agent"))
        await stage.undo(inputs.Redo())
        assert await stage.files() == ["app.py", "b.txt"]


async def test_redo_is_refused_after_a_new_run_and_when_lines_conflict(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, EDIT, files=FILES)
        await stage.undo()
        await stage.write("app.py", edited(_2="mine"))
        with pytest.raises(WorkWouldBeLost) as refused:
            await stage.give(inputs.Redo())
        assert refused.value.paths == ("app.py",)
        await stage.prompt("Something else.")
        with pytest.raises(Conflict, match="A run has begun since the last undo"):
            await stage.give(inputs.Redo(discard=True))


async def test_a_moved_file_goes_back_with_later_changes(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, EDIT, files=FILES)
        await server.host.call(stage.id, requests.MoveFile("app.py", "src/main.py"), by="usr_x")
        step = await stage.seq("file.changed", path="src/main.py")
        await stage.write("src/main.py", edited(_2="agent", _15="mine"))
        await stage.undo(inputs.Undo(step=step))
        assert (await stage.files(), await stage.read("app.py")) == (
            ["app.py"],
            edited(_2="agent", _15="mine"),
        )


async def test_only_one_resolution_can_be_chosen() -> None:
    with pytest.raises(ValueError, match="Set only one of"):
        inputs.Undo(merge=True, keep=True)


async def test_a_fork_continues_the_conversation(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, EDIT, files=FILES)
        forked = await session_fork.fork(server.services, stage.caller, stage.id, conversation=True)
        fork = Stage(server, stage.caller, forked.id)
        await fork.state("idle")
        started = [each for each in await fork.prompt("And now?") if each.type == "message.sent"]
        assert [each.text for each in started] == [REOPENED]  # type: ignore[attr-defined]
        live = server.host.live(fork.id)  # type: ignore[attr-defined]
        messages = Conversation.of(effective_entries(await live.entries())).messages
        assert messages[0] == FromUser("Work.")
        assert FromUser("And now?") in messages
        alone = await session_fork.fork(server.services, stage.caller, stage.id)
        assert not [
            each for each in await until(server, alone.id, "session.prepared") if "copied" in each.type
        ]
