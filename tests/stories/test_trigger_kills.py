"""What was asked on GitHub is done and told once, wherever the server is killed on the way."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import Forked
from tests.gateway.api import eventually
from tests.stories.github import FINISH, FINISH_MORE, FIX, MORE, Story, story
from tests.stories.trigger_victim import ISSUE, LINE, PULL

pytestmark = pytest.mark.anyio


def start(told: Story) -> Forked:
    model = told.model(FIX, FINISH, MORE, FINISH_MORE)
    words = (told.place / "home", told.hub.socket, told.hub.url("acme/project"), model)
    return Forked(
        [sys.executable, "-m", "tests.stories.trigger_victim", *map(str, words)],
        env={"PATH": os.environ["PATH"], "HOME": str(told.place / "home")},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


@pytest.mark.parametrize(
    ("pattern", "after"),
    [
        pytest.param(r"/permission", False, id="before it began"),
        pytest.param(rf"GET .*/issues/{ISSUE}/comments", False, id="after it began"),
        pytest.param(rf"POST .*/issues/{ISSUE}/comments", True, id="after it was commented"),
        pytest.param(r"PullRequestCreate", True, id="while it is opened"),
        pytest.param(rf"POST .*/issues/{PULL}/comments", True, id="when it goes on"),
        pytest.param(rf"POST .*/comments/{LINE}/replies", False, id="before it is answered"),
        pytest.param(rf"POST .*/comments/{LINE}/replies", True, id="after it was answered"),
    ],
)
async def test_killed_and_started_again(tmp_path: Path, pattern: str, after: bool) -> None:
    with story(tmp_path) as told:
        repo = told.hub.repository("acme/project")
        told.hub.state.new_issue(repo, "ada", "Slugs", "Lower.")
        # Longer than a start takes: what was asked for is done when somebody else looks for it already.
        fault = told.hub.fault(pattern, 0, delay_s=4.0, after=after, times=1)
        process = start(told)

        async def reached() -> bool:
            assert process.poll() is None
            return fault.times == 0

        await eventually(reached)
        landing = asyncio.ensure_future(asyncio.sleep(fault.delay_s + 1))
        await asyncio.sleep(0.2)  # what is done before its answer is lost is done by now
        process.kill_session()
        again = start(told)
        printed, _ = await again.said()
        await landing  # whatever the killed one had asked for is done
        assert printed.decode().splitlines() == ["one ended ", "two ended "]
        (pull,) = told.pulls().values()
        assert pull["number"] == PULL and repo.branches() == ["hutch/slugs-are-lower-case", "main"]
        (progress,) = repo.issues[ISSUE]["comments"].values()
        assert progress["body"].startswith("Done: ")
        answers = [each for each in repo.issues[PULL]["comments"].values() if "in_reply_to" in each]
        others = [each for each in repo.issues[PULL]["comments"].values() if "in_reply_to" not in each]
        assert len(answers) == len(others) == 1
        assert answers[0]["body"].startswith("Done: ") and others[0]["body"].startswith("Done: ")
        assert told.hub.count("PullRequestCreate") == 1
