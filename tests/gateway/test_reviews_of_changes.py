"""A review of a pull request by URL counts for its change, if the caller may work on it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.api_server import V1, Api, eventually
from tests.sessions.session_server import call
from tests.stories.github_story import Story, code, story

pytestmark = pytest.mark.anyio
FINDS = call("comment", path="slug.py", line=2, severity="blocker", body="Loses letters.")
FINE = call("finish", title="Good.", summary="")


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[tuple[Story, Api]]:
    with story(tmp_path) as made:
        async with made.server(model=made.model(FINE, name="r.json")) as api:
            yield made, api


async def proposed(made: Story, api: Api) -> dict[str, Any]:
    done = await code(api, made)
    [change] = (await api.get(f"{V1}/changes", params={"session": done["session"]})).json()["items"]
    return dict(change)


async def reviewed(made: Story, api: Api, number: int, *replies: dict[str, Any], **how: Any) -> str:
    """The session that has read a pull request, named by its address."""
    url = made.hub.url("acme/project").removesuffix(".git") + f"/pull/{number}"
    made.model(*replies, name="r.json")  # which the server's own plays from now on
    begun = await api.post(f"{V1}/reviews", json={"url": url, **how})
    assert begun.status_code == 202, begun.text
    session = str(begun.json()["session_id"])

    async def given() -> bool:
        return any(each["type"] == "review.submitted" for each in await api.events(session))

    await eventually(given)
    return session


async def test_a_blocker_holds_the_merge_back(setup: tuple[Story, Api]) -> None:
    made, api = setup
    change = await proposed(made, api)
    url = f"{V1}/changes/{change['id']}"
    session = await reviewed(made, api, change["number"], FINDS, call("finish", title="No.", summary=""))
    [given] = [each for each in await api.events(session) if each["type"] == "review.submitted"]
    assert (given["change_id"], given["verdict"]) == (change["id"], "changes_requested")
    [comment] = (await api.get(f"{url}/comments")).json()["items"]
    assert comment["body"] == "Loses letters."
    refused = await api.post(f"{url}/merge")
    assert refused.status_code == 409 and "the agent's review asked for changes" in refused.json()["detail"]
    again = await api.post(f"{V1}/reviews", json={"url": change["url"]})
    assert again.status_code == 409 and "was reviewed already" in again.json()["detail"]
    await reviewed(made, api, change["number"], FINE, again=True)
    assert (await api.post(f"{url}/merge")).status_code == 200


async def test_callers_without_write_access_neither_lift_nor_make_objections(
    setup: tuple[Story, Api],
) -> None:
    """The attack: a user without access lets a model review and approve a pull request."""
    made, api = setup
    change = await proposed(made, api)
    url = f"{V1}/changes/{change['id']}"
    bob, eve = await api.as_user("bob"), await api.as_user("eve")
    shared = await api.put(f"{V1}/sessions/{change['session_id']}/shares/eve", json={"role": "observer"})
    assert shared.is_success, shared.text
    await reviewed(made, bob, change["number"], FINDS, call("finish", title="No.", summary=""))
    assert (await api.get(f"{url}/reviews")).json()["items"] == []
    # It was read for somebody else: that is no review of the change, and in nobody's way.
    await reviewed(made, api, change["number"], FINDS, call("finish", title="Not yet.", summary=""))
    for stranger in (bob, eve):
        session = await reviewed(made, stranger, change["number"], FINE, again=True)
        [given] = [each for each in await stranger.events(session) if each["type"] == "review.submitted"]
        assert given["change_id"] == ""
    [kept] = (await api.get(f"{url}/reviews")).json()["items"]
    assert (kept["verdict"], kept["title"]) == ("changes_requested", "Not yet.")
    assert (await api.post(f"{url}/merge")).status_code == 409
