"""Helpers in a real host: agents that work for another one, in sessions of their own."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hutch.domain import inputs
from hutch.domain.events import (
    ApprovalAnswered,
    ApprovalRequested,
    Event,
    RunEnded,
    ToolReturned,
)
from hutch.domain.helper_agent_events import HelperChangesTaken, HelperEnded, HelperStarted
from hutch.domain.ids import SessionId
from hutch.domain.run_limits import RunLimits
from hutch.domain.session import NewSession, Session
from hutch.domain.user import Caller
from hutch.flows import sessions
from hutch.gateway.gateway_context import Server
from hutch.sessions.file_and_command_requests import ReadFile
from hutch.store.sessions import Sessions
from tests.deadline import DEADLINE_S
from tests.sessions.session_server import call, cassette, owner, repository, serving, state, until

pytestmark = pytest.mark.anyio
DONE = call("finish", title="Done", summary="It is done.")
FILES = {"a.txt": "one\ntwo\nthree\n", "b.txt": "b\n"}


def edit(path: str, old: str, new: str) -> dict[str, Any]:
    return call("edit_file", path=path, edits=[{"old": old, "new": new}])


def delegate(*tasks: dict[str, Any] | str) -> dict[str, Any]:
    return call(
        "delegate",
        tasks=[{"task": "Do it", "persona": each} if isinstance(each, str) else each for each in tasks],
    )


def take(name: str, action: str = "merge") -> dict[str, Any]:
    return call("helper_changes", helper=name, action=action)


@dataclass
class Tree:
    """A server with a repository, and personas whose models are scripted."""

    server: Server
    caller: Caller
    place: Path

    def persona(self, name: str, *replies: dict[str, Any], front: str = "") -> str:
        model = cassette(self.place / f"{name}.json", replies)
        folder = self.place / "home" / "config" / "personas"
        folder = self.server.services.personas or folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.md").write_text(f"---\nmodel: {model}\n{front}---\nHelp.\n")
        return name

    async def start(self, *replies: dict[str, Any], **more: Any) -> SessionId:
        model = cassette(self.place / "parent.json", replies)
        new = NewSession(repository=str(self.place / "repo"), model=model, prompt="Do all of it.", **more)
        return (await sessions.create(self.server.services, self.caller, new)).id

    async def run(self, *replies: dict[str, Any], **more: Any) -> tuple[SessionId, list[Event]]:
        id = await self.start(*replies, **more)
        return id, await until(self.server, id, "run.ended")

    async def text(self, id: SessionId, path: str) -> str:
        return (await self.server.host.call(id, ReadFile(path))).data.decode()

    async def first_child(self, id: SessionId) -> Session:
        """The session of a helper is created right after `helper.started`."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                if found := await self.children(id):
                    return found[0]
                await asyncio.sleep(0.02)

    async def children(self, id: SessionId) -> list[Session]:
        return await Sessions(self.server.rows).page(user_id=None, parent=id)


@pytest.fixture
async def tree(tmp_path: Path) -> AsyncIterator[Tree]:
    repository(tmp_path / "repo", FILES)
    async with serving(tmp_path / "home") as server:
        yield Tree(server, await owner(server), tmp_path)


def returned(events: list[Event], tool: str) -> list[ToolReturned]:
    return [each for each in events if isinstance(each, ToolReturned) and each.tool == tool]


def only(events: list[Event], kind: type[Any]) -> list[Any]:
    return [each for each in events if isinstance(each, kind)]


async def test_helpers_work_on_copies_and_their_changes_are_merged_or_dropped(tree: Tree) -> None:
    first = tree.persona("first", edit("a.txt", "one", "1"), DONE)
    second = tree.persona("second", edit("a.txt", "three", "3"), DONE)
    third = tree.persona("third", call("write_file", path="c.txt", content="c\n"), DONE)
    id, events = await tree.run(
        delegate(first, second, third), take("h1"), take("h2"), take("h3", "drop"), DONE
    )
    assert [each.name for each in only(events, HelperStarted)] == ["h1", "h2", "h3"]
    assert sorted(each.name for each in only(events, HelperEnded)) == ["h1", "h2", "h3"]
    assert {each.outcome for each in only(events, HelperEnded)} == {"done"}
    assert [(each.name, each.action, each.files) for each in only(events, HelperChangesTaken)] == [
        ("h1", "merged", ("a.txt",)),
        ("h2", "merged", ("a.txt",)),
        ("h3", "dropped", ()),
    ]
    assert await tree.text(id, "a.txt") == "1\ntwo\n3\n"
    told = returned(events, "delegate")[0].text
    assert "+1\n" in told and "h3: done." in told
    children = await tree.children(id)
    assert {each.parent for each in children} == {id} and len(children) == 3
    assert {each.state for each in children} == {"ended"}
    changed = [each.path for each in events if each.type == "file.changed"]
    assert changed == ["a.txt", "a.txt"]


async def test_a_merge_names_its_conflicts_and_changes_nothing(tree: Tree) -> None:
    first = tree.persona("first", edit("a.txt", "two", "zwei"), DONE)
    replies = (
        delegate(first),
        edit("a.txt", "two", "deux"),
        take("h1"),
        call("bash", command="cat a.txt"),
        take("h1", "merge_with_markers"),
        DONE,
    )
    id, events = await tree.run(*replies)
    refused, marked = returned(events, "helper_changes")
    assert not refused.ok and "a.txt: both changed the same lines" in refused.text
    assert "deux" in returned(events, "bash")[0].text and "<<<" not in returned(events, "bash")[0].text
    assert marked.ok and "conflict markers" in marked.text
    assert "<<<<<<< yours\ndeux\n" in await tree.text(id, "a.txt")


async def test_a_helper_has_no_more_rights_than_its_parent(tree: Tree) -> None:
    writer = tree.persona(
        "writer",
        call("write_file", path="c.txt", content="c\n"),
        call("delegate", tasks=[{"task": "x"}]),
        DONE,
    )
    tree.persona("reader", front="tools: [read_file, delegate, helper_changes, finish]\n")
    _, events = await tree.run(delegate(writer), DONE, persona="reader")
    ended = only(events, HelperEnded)[0]
    assert (ended.files, ended.turns) == (0, 3)
    child = only(events, HelperStarted)[0].helper
    results = only(await until(tree.server, SessionId(child), "run.ended"), ToolReturned)
    assert [each.text.split(".")[0] for each in results[:2]] == [
        "There is no tool 'write_file'",
        "There is no tool 'delegate'",
    ]


async def test_rules_of_the_parent_hold_for_its_helpers(tree: Tree) -> None:
    writer = tree.persona("writer", call("write_file", path="c.txt", content="c\n"), DONE)
    tree.persona("careful", front="policy:\n  rules: [deny write_file c.txt]\n")
    _, events = await tree.run(delegate(writer), DONE, persona="careful")
    assert only(events, HelperEnded)[0].files == 0


async def test_the_budget_of_helpers_is_taken_from_the_parent(tree: Tree) -> None:
    loops = tree.persona("loops", {**call("bash", command="date +%N"), "times": 50})
    _, events = await tree.run(
        delegate(loops), {**call("bash", command="true"), "times": 50}, limits=RunLimits(turns=10)
    )
    started, ended = only(events, HelperStarted)[0], only(events, HelperEnded)[0]
    assert (started.max_turns, ended.outcome, ended.turns) == (4, "limit_reached", 4)
    run = only(events, RunEnded)[0]
    assert (run.outcome, run.limit, run.turns) == ("limit_reached", "turns", 6)


async def test_the_number_of_helpers_is_limited(tree: Tree) -> None:
    first = tree.persona("first", DONE)
    _, events = await tree.run(delegate(*[first] * 9), delegate({"task": "x", "persona": "nobody"}), DONE)
    refused = returned(events, "delegate")
    assert "may have 8 helpers" in refused[0].text and "no persona 'nobody'" in refused[1].text
    assert not only(events, HelperStarted)


async def test_an_approval_of_a_helper_is_asked_and_answered_in_the_session_of_its_parent(tree: Tree) -> None:
    first = tree.persona("first", call("write_file", path="c.txt", content="c\n"), DONE)
    tree.persona("asks", front="policy:\n  rules: [ask write_file]\n")
    id = await tree.start(delegate(first), take("h1"), DONE, persona="asks")
    asked = only(await until(tree.server, id, "approval.requested"), ApprovalRequested)[0]
    assert asked.helper == (await tree.children(id))[0].id
    assert await state(tree.server, tree.caller, id, "waiting") == "waiting"
    await sessions.give(tree.server.services, tree.caller, id, inputs.Approve(call_id=asked.call_id))
    events = await until(tree.server, id, "run.ended")
    assert only(events, ApprovalAnswered)[0].by == tree.caller.user.id
    assert await tree.text(id, "c.txt") == "c\n"
    child = await until(tree.server, SessionId(asked.helper), "run.ended")
    assert only(child, ApprovalAnswered)[0].allowed


async def test_cancelling_the_parent_cancels_its_helpers(tree: Tree) -> None:
    sleeper = tree.persona("sleeper", call("bash", command="sleep 600", timeout_s=600), DONE)
    id = await tree.start(delegate(sleeper), DONE)
    await until(tree.server, id, "helper.started")
    children = [await tree.first_child(id)]
    await until(tree.server, children[0].id, "command.started")
    await sessions.give(tree.server.services, tree.caller, id, inputs.Cancel())
    assert only(await until(tree.server, id, "run.ended"), RunEnded)[0].outcome == "cancelled"
    child = await until(tree.server, children[0].id, "run.ended")
    assert only(child, RunEnded)[0].outcome == "cancelled"


async def test_helpers_continue_after_a_pause_of_their_parent(tree: Tree) -> None:
    slow = tree.persona("slow", {**edit("a.txt", "one", "1"), "delay_s": 0.5}, DONE)
    id = await tree.start(delegate(slow), take("h1"), DONE)
    await until(tree.server, id, "helper.started")
    children = [await tree.first_child(id)]
    await sessions.give(tree.server.services, tree.caller, id, inputs.Pause())
    await state(tree.server, tree.caller, id, "paused")
    await sessions.give(tree.server.services, tree.caller, id, inputs.Resume())
    events = await until(tree.server, id, "run.ended")
    assert [each.name for each in only(events, HelperStarted)] == ["h1"]
    assert [each.id for each in await tree.children(id)] == [children[0].id]
    assert await tree.text(id, "a.txt") == "1\ntwo\nthree\n"


async def test_a_run_delegates_also_where_only_one_run_may_work(tmp_path: Path) -> None:
    repository(tmp_path / "repo", FILES)
    async with serving(tmp_path / "home", sessions__runs=1, sessions__runs_per_user=1) as server:
        tree = Tree(server, await owner(server), tmp_path)
        first = tree.persona("first", edit("a.txt", "one", "1"), DONE)
        id, _ = await tree.run(delegate(first, first), take("h1"), DONE)
        assert await tree.text(id, "a.txt") == "1\ntwo\nthree\n"
