"""A request on GitHub is done and answered once, wherever the server is killed on the way."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tests.deadline import DEADLINE_S
from tests.forked_command import Forked
from tests.gateway.api_server import eventually
from tests.stories.github_story import FINISH, FINISH_MORE, FIX, MORE, Story, story
from tests.stories.server_killed_during_webhooks import ISSUE, LINE, PULL

pytestmark = pytest.mark.anyio
SOAK = pytest.mark.soak  # `make test` tries some moments, `make soak` all
# After the next server was started: when it may look for it already, and before it stops waiting for it.
LANDS_AFTER_S = 3.0


def start(setup: Story) -> Forked:
    # The run goes on while GitHub is notified, so the kill may interrupt a call: repeat it, as a model would.
    model = setup.model(FIX, FIX, FINISH, MORE, MORE, FINISH_MORE)
    words = (setup.place / "home", setup.hub.socket, setup.hub.url("acme/project"), model)
    return setup.start(
        [sys.executable, "-m", "tests.stories.server_killed_during_webhooks", *map(str, words)],
        env={"PATH": os.environ["PATH"], "HOME": str(setup.place / "home")},
    )


@pytest.mark.parametrize(
    ("pattern", "after"),
    [
        pytest.param(r"/permission", False, marks=SOAK, id="before it began"),
        pytest.param(rf"GET .*/issues/{ISSUE}/comments", False, marks=SOAK, id="after it began"),
        pytest.param(rf"POST .*/issues/{ISSUE}/comments", True, id="after it was commented"),
        pytest.param(r"PullRequestCreate", True, marks=SOAK, id="while it is opened"),
        pytest.param(rf"POST .*/issues/{PULL}/comments", True, marks=SOAK, id="when it goes on"),
        pytest.param(rf"POST .*/comments/{LINE}/replies", False, marks=SOAK, id="before it is answered"),
        pytest.param(rf"POST .*/comments/{LINE}/replies", True, id="after it was answered"),
    ],
)
async def test_killed_and_started_again(tmp_path: Path, pattern: str, after: bool) -> None:
    with story(tmp_path) as setup:
        repo = setup.hub.repository("acme/project")
        setup.hub.state.new_issue(repo, "ada", "Slugs", "Lower.")
        fault = setup.hub.fault(pattern, 0, delay_s=DEADLINE_S, after=after, times=1)
        process = start(setup)

        async def reached() -> bool:
            assert process.poll() is None
            return fault.reached.is_set()

        await eventually(reached)
        process.kill_session()
        again = start(setup)
        asyncio.get_running_loop().call_later(LANDS_AFTER_S, fault.released.set)
        printed, _ = await again.output(DEADLINE_S)
        assert await asyncio.to_thread(fault.done.wait, DEADLINE_S)  # what the killed one had asked for
        assert printed.decode().splitlines() == ["one ended ", "two ended "]
        (pull,) = setup.pulls().values()
        assert pull["number"] == PULL and repo.branches() == ["hutch/slugs-are-lower-case", "main"]
        (progress,) = repo.issues[ISSUE]["comments"].values()
        assert progress["body"].startswith("Done: ")
        answers = [each for each in repo.issues[PULL]["comments"].values() if "in_reply_to" in each]
        others = [each for each in repo.issues[PULL]["comments"].values() if "in_reply_to" not in each]
        assert len(answers) == len(others) == 1
        assert answers[0]["body"].startswith("Done: ") and others[0]["body"].startswith("Done: ")
        assert setup.hub.count("PullRequestCreate") == 1
