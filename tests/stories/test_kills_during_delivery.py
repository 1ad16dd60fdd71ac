"""A run that is killed at each of its stages ends in one single pull request."""

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hutch.app.event_log import event_log
from hutch.domain.ids import SessionId
from hutch.domain.proposed_change import Change
from hutch.store.proposed_changes import Changes
from tests.deadline import DEADLINE_S
from tests.forked_command import Forked
from tests.gateway.api_server import eventually
from tests.sessions.session_server import call, loaded
from tests.stories.github_story import FINISH, FINISH_MORE, FIX, MORE, Story, story

pytestmark = pytest.mark.anyio
SOAK = pytest.mark.soak  # `make test` tries some moments, `make soak` all
WORKING = "nothing that GitHub is asked"
FAILS = "! grep -q lower slug.py"  # passes before it is mended, and fails after that
SLOW = call("bash", command="sleep 600", timeout_s=600)  # until the server is killed


async def proposed(setup: Story) -> list[Change]:
    async with event_log(loaded(setup.place / "home")) as rows:
        return await Changes(rows).list()


def start(setup: Story, prompts: int, tests: str = "", *, slow: bool = False) -> Forked:
    model = setup.model(*([SLOW] if slow else []), FIX, FINISH, MORE, FINISH_MORE)
    words = (setup.place / "home", setup.hub.socket, setup.hub.url("acme/project"), model, prompts, tests)
    return setup.start(
        [sys.executable, "-m", "tests.stories.server_killed_during_delivery", *map(str, words)],
        env={"PATH": os.environ["PATH"], "HOME": str(setup.place / "home")},
    )


@pytest.mark.parametrize(
    ("pattern", "after", "prompts"),
    [
        pytest.param(r"service=git-upload-pack", False, 1, marks=SOAK, id="while it is cloned"),
        pytest.param(WORKING, False, 1, id="while it is worked on"),
        pytest.param(
            r"GET /repos/acme/project$",
            False,
            1,
            marks=SOAK,
            id="while it is looked whether it can be delivered",
        ),
        pytest.param(r"service=git-receive-pack", False, 1, marks=SOAK, id="after the commit"),
        pytest.param(r"GET /repos/acme/project/pulls$", False, 1, marks=SOAK, id="after the push"),
        pytest.param(r"PullRequestCreate", True, 1, id="while it is opened"),
        pytest.param(r"issues/1/labels", False, 1, marks=SOAK, id="after it was opened"),
        pytest.param(r"requested_reviewers", True, 1, marks=SOAK, id="before it is written down"),
        pytest.param(r"PATCH /repos/acme/project/pulls/1", False, 2, marks=SOAK, id="after a second push"),
        pytest.param(r"PATCH /repos/acme/project/pulls/1", True, 2, id="after an update"),
    ],
)
async def test_killed_and_started_again(tmp_path: Path, pattern: str, after: bool, prompts: int) -> None:
    with story(tmp_path) as setup:
        fault = setup.hub.fault(pattern, 0, delay_s=DEADLINE_S, after=after, times=1)
        process = start(setup, prompts, slow=pattern == WORKING)

        async def reached() -> bool:
            assert process.poll() is None
            return fault.reached.is_set() if pattern != WORKING else await works(setup)

        await eventually(reached)
        process.kill_session()
        fault.released.set()  # what it had asked for is done all the same
        again = start(setup, prompts, slow=pattern == WORKING)
        printed, _ = await again.output(DEADLINE_S)
        assert again.returncode == 0
        (pull,) = setup.pulls().values()
        repo = setup.hub.repository("acme/project")
        assert repo.branches() == ["hutch/slugs-are-lower-case", "main"]
        assert (pull["labels"], pull["reviewers"], pull["state"]) == (["hutch"], ["ada"], "open")
        assert pull["body"].count("As they should be") == 1
        assert pull["body"].count("And stripped.") == prompts - 1
        (change,) = await proposed(setup)
        assert (change.number, change.commit) == (1, repo.tip("hutch/slugs-are-lower-case"))
        assert change.session_id == printed.decode().strip()
        assert setup.hub.count("PullRequestCreate") == 1
        counted = Counter(await steps(setup, SessionId(change.session_id), prompts))
        wanted = dict.fromkeys(("branching", "committing", "pushing", "opening"), prompts)
        assert counted == {"cloning": 2 if "upload" in pattern else 1, "inspecting": 1, **wanted}


@pytest.mark.parametrize(
    ("pattern", "after"),
    [
        pytest.param(r"service=git-receive-pack", False, marks=SOAK, id="before the push"),
        pytest.param(r"GET /repos/acme/project/pulls$", False, marks=SOAK, id="after the push"),
        pytest.param(r"PullRequestCreate", True, marks=SOAK, id="while it is opened"),
        pytest.param(r"requested_reviewers", True, id="before it is written down"),
    ],
)
async def test_killed_while_it_is_proposed_on_somebodys_word(
    tmp_path: Path, pattern: str, after: bool
) -> None:
    with story(tmp_path) as setup:
        fault = setup.hub.fault(pattern, 0, delay_s=DEADLINE_S, after=after, times=1)
        process = start(setup, 1, FAILS)

        async def reached() -> bool:
            assert process.poll() is None
            return fault.reached.is_set()

        await eventually(reached)
        process.kill_session()
        fault.released.set()
        again = start(setup, 1, FAILS)
        printed, _ = await again.output(DEADLINE_S)
        assert again.returncode == 0
        (pull,) = setup.pulls().values()
        assert "This is known" in pull["body"] and pull["reviewers"] == ["ada"]
        (change,) = await proposed(setup)
        repo = setup.hub.repository("acme/project")
        assert (change.number, change.commit) == (1, repo.tip("hutch/slugs-are-lower-case"))
        assert setup.hub.count("PullRequestCreate") == 1 and change.tests_fail
        found = await replies_in(setup, SessionId(printed.decode().strip()))
        assert [each.outcome for each in found if each.type == "delivery.ended"] == ["failed", "proposed"]
        assert [each.type for each in found].count("delivery.requested") == 1


async def works(setup: Story) -> bool:
    """True if a tool is under way."""
    settings = loaded(setup.place / "home")
    if not settings.paths.database.exists():
        return False
    async with event_log(settings) as log:
        entries = [entry for head in await log.heads() for entry in await log.read(head.session_id)]
    return any(entry.event.type == "tool.called" for entry in entries)


async def replies_in(setup: Story, session_id: SessionId) -> list[Any]:
    """All events of a session."""
    async with event_log(loaded(setup.place / "home")) as log:
        entries, found = await log.read(session_id, after=0), []
        while entries:
            found += [each.event for each in entries]
            entries = await log.read(session_id, after=entries[-1].seq)
    return found


async def steps(setup: Story, session_id: SessionId, prompts: int) -> list[str]:
    found = await replies_in(setup, session_id)
    ends = [each for each in found if each.type == "delivery.ended"]
    assert [each.outcome for each in ends] == ["proposed"] * prompts
    return [each.step for each in found if each.type == "step.reached"]
