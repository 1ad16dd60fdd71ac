"""A review of a pull request is posted once, wherever the server is killed on the way."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.forge.repositories import commit, git
from tests.gateway.api import eventually
from tests.sessions.hosting import call
from tests.stories.github import Story, story

pytestmark = pytest.mark.anyio
SAY = call("comment", path="README.md", line=1, severity="should", body="More of what?")
FINISH = call("finish", title="Nearly", summary="One thing.")


async def start(told: Story, made: str, pull: str) -> asyncio.subprocess.Process:
    words = (told.place / "home", told.hub.socket, told.hub.url("acme/project"), made, pull)
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.stories.review_victim", *map(str, words), told.model(SAY, FINISH)),
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )


@pytest.mark.parametrize("after", [False, True], ids=["before it is there", "before its answer is"])
async def test_killed_and_started_again(tmp_path: Path, after: bool) -> None:
    with story(tmp_path) as told:
        repo, place = told.hub.repository("acme/project"), tmp_path / "made"
        git(place, "checkout", "-q", "-b", "feature")
        made = commit(place, {"README.md": "# Slugs, and more\n"})
        git(place, "push", "-q", str(repo.path), "HEAD:feature")
        theirs = told.hub.state.new_pull(
            repo, "eve", head="feature", base="main", title="More", body="x", draft=False
        )
        assert isinstance(theirs, dict)
        pull = f"{told.hub.url('acme/project').removesuffix('.git')}/pull/{theirs['number']}"
        # Longer than a start takes: it is done when somebody else looks for it already.
        fault = told.hub.fault(r"POST .*/reviews", 0, delay_s=5.0, after=after, times=1)
        process = await start(told, made, pull)

        async def reached() -> bool:
            assert process.returncode is None
            return fault.times == 0

        await eventually(reached)
        landing = asyncio.ensure_future(asyncio.sleep(fault.delay_s + 1))
        await asyncio.sleep(0.2)  # what is done before its answer is lost is done by now
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        again = await start(told, made, pull)
        async with asyncio.timeout(90):
            printed, _ = await again.communicate()
        await landing  # whatever the killed one had asked for is done
        (review,) = theirs["reviews"]
        assert printed.decode().strip() == review["html_url"]
        assert [each["path"] for each in review["comments"]] == ["README.md"]
