"""A review of a pull request is posted once, wherever the server or the command is killed on the way."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deadline import DEADLINE_S
from tests.forge.github_server import HOST, Fault
from tests.forge.repositories import commit, git
from tests.forked_command import HUTCH, Forked
from tests.gateway.api_server import eventually
from tests.sessions.session_server import call
from tests.stories.github_story import Story, story

pytestmark = pytest.mark.anyio
SAY = call("comment", path="README.md", line=1, severity="should", body="More of what?")
FINISH = call("finish", title="Nearly", summary="One thing.")
# After the next one was started: when it may look for it already, and before it stops waiting for it.
LANDS_AFTER_S = 4.0


def start(setup: Story, made: str, pull: str) -> Forked:
    words = (setup.place / "home", setup.hub.socket, setup.hub.url("acme/project"), made, pull)
    return setup.start(
        [
            sys.executable,
            "-m",
            "tests.stories.server_killed_during_review",
            *map(str, words),
            setup.model(SAY, FINISH),
        ],
        env={"PATH": os.environ["PATH"], "HOME": str(setup.place / "home")},
    )


def proposed(setup: Story) -> tuple[str, dict[str, Any], str]:
    """A pull request of somebody else: its commit, what the hub knows of it, and its address."""
    repo, place = setup.hub.repository("acme/project"), setup.place / "made"
    git(place, "checkout", "-q", "-b", "feature")
    made = commit(place, {"README.md": "# Slugs, and more\n"})
    git(place, "push", "-q", str(repo.path), "HEAD:feature")
    theirs = setup.hub.state.new_pull(
        repo, "eve", head="feature", base="main", title="More", body="x", draft=False
    )
    assert isinstance(theirs, dict)
    pull = f"{setup.hub.url('acme/project').removesuffix('.git')}/pull/{theirs['number']}"
    return made, theirs, pull


def review(setup: Story, pull: str) -> Forked:
    """`hutch review`, with a directory of its own."""
    temporary = setup.place / "tmp"
    temporary.mkdir(exist_ok=True)
    environment = {
        "PATH": os.environ["PATH"],
        "TMPDIR": str(temporary),
        "HOME": str(setup.place / "home"),
        "HUTCH_HOME": str(setup.place / "home"),
        "HUTCH_GITHUB__HOSTS": f"{HOST}:{setup.hub.port}",
        "HUTCH_GITHUB__UNIX_SOCKET": str(setup.hub.socket),
    }
    words = ("review", pull, "--model", setup.model(SAY, FINISH))
    return setup.start(
        [HUTCH, *words],
        env=environment,
        stderr=subprocess.PIPE,
    )


async def until_posting(setup: Story, process: Forked, *, after: bool = False) -> Fault:
    """Wait until it asks for a review to be posted, which waits until the fault is released."""
    fault = setup.hub.fault(r"POST .*/reviews", 0, delay_s=DEADLINE_S, after=after, times=1)

    async def reached() -> bool:
        assert process.poll() is None
        return fault.reached.is_set()

    await eventually(reached)
    return fault


def release_later(fault: Fault) -> None:
    asyncio.get_running_loop().call_later(LANDS_AFTER_S, fault.released.set)


# `make test` tries each moment once, `make soak` both with both.
@pytest.mark.parametrize(
    "after",
    [
        pytest.param(False, marks=pytest.mark.soak, id="before it is there"),
        pytest.param(True, id="before its answer is"),
    ],
)
async def test_a_command_that_was_killed_is_repeated(tmp_path: Path, after: bool) -> None:
    with story(tmp_path) as setup:
        _, theirs, pull = proposed(setup)
        first = review(setup, pull)
        fault = await until_posting(setup, first, after=after)
        first.kill_session()
        assert list((tmp_path / "tmp").glob("hutch-gh-*"))  # what a kill leaves
        again = review(setup, pull)
        release_later(fault)
        printed, said = await again.output(DEADLINE_S)
        (posted,) = theirs["reviews"]
        assert "Already reviewed at " in printed.decode(), said.decode()
        assert posted["html_url"] in printed.decode()
        assert not list((tmp_path / "tmp").glob("hutch-gh-*"))


async def test_a_command_that_is_stopped_while_it_posts_sees_that_through(tmp_path: Path) -> None:
    with story(tmp_path) as setup:
        _, theirs, pull = proposed(setup)
        first = review(setup, pull)
        fault = await until_posting(setup, first)
        os.kill(first.pid, signal.SIGINT)
        asyncio.get_running_loop().call_later(1.0, fault.released.set)
        printed, said = await first.output(DEADLINE_S)
        (posted,) = theirs["reviews"]
        assert (first.returncode, posted["html_url"] in printed.decode()) == (0, True), said.decode()
        asked = len(setup.hub.requests)
        again = review(setup, pull)
        printed, _ = await again.output(DEADLINE_S)
        assert "Already reviewed at " in printed.decode() and len(theirs["reviews"]) == 1
        assert not any("reviews" in line for line in setup.hub.requests[asked:])  # it was known


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(False, id="before it is there"),
        pytest.param(True, marks=pytest.mark.soak, id="before its answer is"),
    ],
)
async def test_killed_and_started_again(tmp_path: Path, after: bool) -> None:
    with story(tmp_path) as setup:
        made, theirs, pull = proposed(setup)
        process = start(setup, made, pull)
        fault = await until_posting(setup, process, after=after)
        process.kill_session()
        again = start(setup, made, pull)
        release_later(fault)
        printed, _ = await again.output(DEADLINE_S)
        assert await asyncio.to_thread(fault.done.wait, DEADLINE_S)  # what the killed one had asked for
        (review,) = theirs["reviews"]
        assert printed.decode().strip() == review["html_url"]
        assert [each["path"] for each in review["comments"]] == ["README.md"]
