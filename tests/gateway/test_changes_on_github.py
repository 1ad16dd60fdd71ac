"""Changes that are pull requests, over HTTP: settled on GitHub by who may, and by nobody else."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.api import V1, Api
from tests.stories.github import Story, code, story

pytestmark = pytest.mark.anyio
EVE = "tok_eve_0123456789"
SLUG = {"path": "slug.py", "line": 2, "body": "Why?"}


@pytest.fixture
async def told(tmp_path: Path) -> AsyncIterator[tuple[Story, Api]]:
    people = {"hutch-bot": "write", "eve": "write", "ada": "write"}
    with story(tmp_path, permissions=people) as made:
        made.hub.state.tokens[EVE] = "eve"
        async with made.server() as api:
            yield made, api


async def proposed(told: Story, api: Api) -> dict[str, Any]:
    done = await code(api, told)
    [change] = (await api.get(f"{V1}/changes", params={"session": done["session"]})).json()["items"]
    return dict(change)


async def me(api: Api) -> str:
    return str((await api.get(f"{V1}/me")).json()["user"]["id"])


async def test_it_is_read_commented_on_judged_and_merged_there(told: tuple[Story, Api]) -> None:
    made, api = told
    change = await proposed(made, api)
    url = f"{V1}/changes/{change['id']}"
    pull = made.pulls()[change["number"]]
    assert "+    return text.lower()" in (await api.get(f"{url}/diff")).text
    said = await api.post(f"{url}/comments", json=SLUG)
    assert said.status_code == 201, said.text
    (posted,) = pull["comments"].values()
    assert "who has no token of their own here" in posted["body"] and posted["user"]["login"] == "hutch-bot"
    own = await api.post(f"{url}/approve")
    assert (own.status_code, own.json()["code"]) == (409, "conflict")
    assert "of their own" in own.json()["detail"] and pull["reviews"] == []
    made.keep(f"github_enterprise_token_{await me(api)}", EVE)
    judged = await api.post(f"{url}/request-changes", json={"body": "Strip it."})
    assert judged.status_code == 201, judged.text
    [given] = pull["reviews"]
    assert (given["event"], given["user"]["login"]) == ("REQUEST_CHANGES", "eve")
    assert judged.json()["url"] == given["html_url"] and "token of their own" not in given["body"]
    refused = await api.post(f"{url}/merge")
    assert refused.status_code == 409 and "eve asked for changes" in refused.json()["detail"]
    merged = await api.post(f"{url}/merge", json={"strategy": "squash", "force": True})
    assert merged.status_code == 200, merged.text
    repo = made.hub.repository("acme/project")
    assert merged.json()["commit"] == repo.tip("main") and pull["merged"]
    assert len(merged.json()["overridden"]) == 1 and merged.json()["branch_stays"] == ""
    assert (await api.get(url)).json()["state"] == "merged"


async def test_nobody_else_settles_it(told: tuple[Story, Api]) -> None:
    made, api = told
    change = await proposed(made, api)
    url = f"{V1}/changes/{change['id']}"
    bob, eve = await api.as_user("bob"), await api.as_user("eve")
    way = f"{V1}/sessions/{change['session_id']}/shares/eve"
    shared = await api.put(way, json={"role": "observer"})
    assert shared.is_success, shared.text
    asked = made.hub.asked.copy()
    bodies = {"request-changes": {"body": "x"}, "comments": SLUG}
    for door in ("merge", "close", "approve", *bodies):
        body = bodies.get(door, {})
        assert (await bob.post(f"{url}/{door}", json=body)).status_code == 404
        assert (await eve.post(f"{url}/{door}", json=body)).status_code == 403
    assert (await bob.get(f"{url}/diff")).status_code == 404
    assert made.hub.asked == asked  # GitHub never heard of it
    assert made.pulls()[change["number"]]["state"] == "open"
    assert (await api.post(f"{url}/close")).status_code == 204
    assert made.pulls()[change["number"]]["state"] == "closed"
