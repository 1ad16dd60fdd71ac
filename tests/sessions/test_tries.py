"""Several agents try one prompt in a real host, and the best result is delivered."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hutch.domain.events import Event, ModelReplied, RunEnded
from hutch.domain.helper_agent_events import HelperStarted, TriesJudged
from hutch.domain.ids import SessionId
from hutch.domain.run_limits import RunLimits
from hutch.domain.session import Delivery, Tries
from tests.cli.project_with_failing_test import FILES
from tests.sessions.session_server import call, cassette, owner, repository, serving, until
from tests.sessions.test_helper_agents import DONE, Tree, edit, only

pytestmark = pytest.mark.anyio
RIGHT = edit("adding.py", "a - b", "a + b")
LONG = edit("adding.py", "return a - b", "total = a\n    total = total + b\n    return total")
WRONG = edit("adding.py", "a - b", "a * b")
NOTHING = {"text": "There is nothing to do."}


@pytest.fixture
async def tree(tmp_path: Path) -> AsyncIterator[Tree]:
    repository(tmp_path / "repo", FILES)
    async with serving(tmp_path / "home") as server:
        yield Tree(server, await owner(server), tmp_path)


async def run(tree: Tree, *scripts: tuple[dict[str, Any], ...], **more: Any) -> tuple[SessionId, list[Event]]:
    models = tuple(cassette(tree.place / f"{n}.json", replies) for n, replies in enumerate(scripts))
    tries = Tries(**{"count": len(scripts), "models": models, "stops_early": False, **more})
    return await tree.run(DONE, delivery=Delivery(tries=tries))


def judged(events: list[Event]) -> TriesJudged:
    found: TriesJudged = only(events, TriesJudged)[0]
    return found


async def test_the_best_of_several_results_is_taken_and_the_table_says_why(tree: Tree) -> None:
    id, events = await run(tree, (WRONG, DONE), (LONG, DONE), (RIGHT, DONE), (NOTHING,))
    table = judged(events)
    assert (table.best, [each.outcome for each in table.tries]) == (
        "h3",
        ["tests_failing", "done", "done", "done"],
    )
    assert [each.why for each in table.tries] == [
        "its tests fail",
        "4 changed lines instead of 2",
        "its tests pass; 2 changed lines",
        "changed nothing",
    ]
    assert "a + b" in await tree.text(id, "adding.py")
    ended = only(events, RunEnded)[0]
    assert (ended.outcome, ended.cost_usd) == ("done", 0.0)
    assert {each.parent for each in await tree.children(id)} == {id}


async def test_hidden_checks_run_on_a_copy_and_are_seen_by_no_agent(tree: Tree) -> None:
    check = "grep -q total adding.py && touch seen-by-check"
    id, events = await run(tree, (RIGHT, DONE), (LONG, DONE), checks=(check,))
    assert [(each.checks_passed, each.checks) for each in judged(events).tries] == [(0, 1), (1, 1)]
    assert judged(events).best == "h2"
    assert "total" in await tree.text(id, "adding.py")
    changed = [each.path for each in events if each.type == "file.changed"]
    assert changed == ["adding.py"]
    for start in only(events, HelperStarted):
        entries = await until(tree.server, SessionId(start.helper), "run.ended")
        assert "seen-by-check" not in json.dumps([each.model_dump(mode="json") for each in entries])


async def test_the_others_are_stopped_when_one_result_is_clearly_good(tree: Tree) -> None:
    slow = ({**RIGHT, "delay_s": 600}, DONE)
    _, events = await run(tree, (RIGHT, DONE), slow, slow, stops_early=True)
    table = judged(events)
    assert (table.best, table.stopped_early) == ("h1", True)
    assert [each.outcome for each in table.tries] == ["done", "cancelled", "cancelled"]


async def test_a_reviewer_decides_between_results_that_pass(tree: Tree) -> None:
    verdict = {"calls": [{"tool": "finish", "args": {"title": "Reject: too clever", "summary": "No."}}]}
    tree.persona("strict", verdict, front="tools: [read_file, finish]\n")
    _, events = await run(tree, (RIGHT, DONE), (LONG, DONE), reviewer="strict")
    assert [each.review for each in judged(events).tries] == ["rejected", "rejected"]
    assert {each.name for each in only(events, HelperStarted)[2:]} == {"review of h1", "review of h2"}


async def test_a_run_fails_if_no_try_has_a_result(tree: Tree) -> None:
    _, events = await run(tree, (NOTHING,), (NOTHING,))
    ended = only(events, RunEnded)[0]
    assert ended.outcome == "failed" and "h1: changed nothing" in ended.reason


async def test_the_cost_limit_holds_for_all_tries_together(tree: Tree) -> None:
    loops = ({**call("bash", command="date +%N"), "usage": {"input": 900, "output": 100}, "times": 50},)
    models = tuple(cassette(tree.place / f"{n}.json", loops) for n in range(4))
    tries = Tries(count=4, models=models)
    _, events = await tree.run(DONE, delivery=Delivery(tries=tries), limits=RunLimits(tokens=8000))
    used = 0
    for start in only(events, HelperStarted):
        assert start.max_tokens == 2000
        entries = await until(tree.server, SessionId(start.helper), "run.ended")
        used += sum(
            each.input_tokens + each.output_tokens for each in entries if isinstance(each, ModelReplied)
        )
    assert used == 8000
