"""Recorded sessions run again from a point, with another model or prompt."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest
from hutch.domain.events import RunEnded, RunStarted, ToolCalled, ToolReturned
from hutch.domain.ids import SessionId
from hutch.domain.session import Rerun
from hutch.flows.session_rerun import compare_runs, rerun
from tests.cli.project_with_failing_test import FILES
from tests.sessions.session_server import cassette, owner, repository, serving, until
from tests.sessions.test_helper_agents import DONE, Tree, edit, only

pytestmark = pytest.mark.anyio
READ = {"calls": [{"tool": "read_file", "args": {"path": "adding.py"}}]}
WRONG = edit("adding.py", "a - b", "a * b")
RIGHT = edit("adding.py", "a * b", "a + b")


@pytest.fixture
async def tree(tmp_path: Path) -> AsyncIterator[Tree]:
    repository(tmp_path / "repo", FILES)
    async with serving(tmp_path / "home") as server:
        yield Tree(server, await owner(server), tmp_path)


async def recorded(tree: Tree) -> tuple[SessionId, int]:
    """A session whose agent fails, and the number of the event after its wrong edit."""
    id, events = await tree.run(READ, WRONG, DONE, DONE, DONE)
    assert only(events, RunEnded)[0].outcome == "tests_failing"
    last = [
        n for n, each in enumerate(events, 1) if isinstance(each, ToolReturned) and each.tool == "edit_file"
    ]
    return id, last[0]


async def test_a_rerun_has_the_files_and_the_conversation_of_its_moment(tree: Tree) -> None:
    id, event = await recorded(tree)
    # The script continues after the two replies that the conversation has already.
    model = cassette(tree.place / "other.json", [READ, WRONG, RIGHT, DONE])
    again = await rerun(tree.server.services, tree.caller, id, Rerun(event=event, model=model))
    events = await until(tree.server, again.id, "run.ended")
    assert only(events, RunStarted)[0].prompt == "Continue with the task."
    assert only(events, RunEnded)[0].outcome == "done"
    assert "a + b" in await tree.text(again.id, "adding.py")
    assert "a * b" in await tree.text(id, "adding.py")  # the recorded session stays
    compared = await compare_runs(tree.server.services, tree.caller, id, again.id)
    was, now = compared["original"], compared["rerun"]
    assert (was.outcome, was.turns, was.files) == ("tests_failing", 1, 0)
    assert (now.outcome, now.tests, now.turns, now.files) == ("done", "1 passed, 0 failed", 2, 1)


async def test_replies_that_a_rerun_knows_are_not_counted_for_the_original(tree: Tree) -> None:
    id, events = await tree.run(READ, WRONG, DONE, DONE, DONE)
    called = [n for n, each in enumerate(events, 1) if isinstance(each, ToolCalled)]
    model = cassette(tree.place / "other.json", [READ, WRONG, RIGHT, DONE])
    asked = Rerun(event=called[1], model=model)  # the file is not changed yet
    again = await rerun(tree.server.services, tree.caller, id, asked)
    await until(tree.server, again.id, "run.ended")
    compared = await compare_runs(tree.server.services, tree.caller, id, again.id)
    assert compared["original"].turns == 1


async def test_a_rerun_from_the_beginning_gets_the_same_prompt_or_another_one(tree: Tree) -> None:
    id, _ = await recorded(tree)
    model = cassette(tree.place / "other.json", [edit("adding.py", "a - b", "a + b"), DONE])
    again = await rerun(tree.server.services, tree.caller, id, Rerun(event=1, model=model))
    events = await until(tree.server, again.id, "run.ended")
    assert only(events, RunStarted)[0].prompt == "Do all of it."
    assert only(events, RunEnded)[0].outcome == "done"
    other = await rerun(tree.server.services, tree.caller, id, Rerun(event=1, model=model, prompt="Mend it."))
    assert only(await until(tree.server, other.id, "run.ended"), RunStarted)[0].prompt == "Mend it."
    compared = await compare_runs(tree.server.services, tree.caller, id, again.id)
    assert [compared[name].outcome for name in ("original", "rerun")] == ["tests_failing", "done"]
    assert compared["original"].turns == 3 and compared["original"].files == 1
    with pytest.raises(BadRequest, match="There is no event 9999"):
        await rerun(tree.server.services, tree.caller, id, Rerun(event=9999))
    with pytest.raises(BadRequest, match="not a rerun"):
        await compare_runs(tree.server.services, tree.caller, again.id, other.id)
