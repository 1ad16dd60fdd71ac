"""Changes that are pull requests, over HTTP: permitted users settle them on GitHub."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.deadline import DEADLINE_S
from tests.gateway.api_server import V1, Api
from tests.stories.github_story import Story, code, story

pytestmark = pytest.mark.anyio
EVE = "tok_eve_0123456789"
SLUG = {"path": "slug.py", "line": 2, "body": "Why?"}


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[tuple[Story, Api]]:
    people = {"hutch-bot": "write", "eve": "write", "ada": "write"}
    with story(tmp_path, permissions=people) as made:
        made.hub.state.tokens[EVE] = "eve"
        async with made.server() as api:
            yield made, api


async def proposed(setup: Story, api: Api) -> dict[str, Any]:
    done = await code(api, setup)
    [change] = (await api.get(f"{V1}/changes", params={"session": done["session"]})).json()["items"]
    return dict(change)


async def me(api: Api) -> str:
    return str((await api.get(f"{V1}/me")).json()["user"]["id"])


async def test_it_is_read_commented_on_judged_and_merged_there(setup: tuple[Story, Api]) -> None:
    made, api = setup
    change = await proposed(made, api)
    url = f"{V1}/changes/{change['id']}"
    pull = made.pulls()[change["number"]]
    assert "+    return text.lower()" in (await api.get(f"{url}/diff")).text
    said = await api.post(f"{url}/comments", json=SLUG)
    assert said.status_code == 201, said.text
    (posted,) = pull["comments"].values()
    assert "who has no token of their own here" in posted["body"] and posted["user"]["login"] == "hutch-bot"
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


async def test_other_users_cannot_settle_it(setup: tuple[Story, Api]) -> None:
    made, api = setup
    change = await proposed(made, api)
    url = f"{V1}/changes/{change['id']}"
    bob, eve = await api.as_user("bob"), await api.as_user("eve")
    way = f"{V1}/sessions/{change['session_id']}/shares/eve"
    shared = await api.put(way, json={"role": "observer"})
    assert shared.is_success, shared.text
    asked = made.hub.requests.copy()
    bodies = {"request-changes": {"body": "x"}, "comments": SLUG}
    for action in ("merge", "close", "approve", *bodies):
        body = bodies.get(action, {})
        assert (await bob.post(f"{url}/{action}", json=body)).status_code == 404
        assert (await eve.post(f"{url}/{action}", json=body)).status_code == 403
    assert (await bob.get(f"{url}/diff")).status_code == 404
    assert made.hub.requests == asked  # GitHub never heard of it
    assert made.pulls()[change["number"]]["state"] == "open"
    assert (await api.post(f"{url}/close")).status_code == 204
    assert made.pulls()[change["number"]]["state"] == "closed"


async def audited(api: Api, change: dict[str, Any]) -> list[dict[str, Any]]:
    """The audit entries of a change, oldest first."""
    listed = (await api.get(f"{V1}/audit")).json()["items"]
    return [each for each in reversed(listed) if each["object"] == change["id"]]


async def shared(api: Api, change: dict[str, Any], *names: str) -> list[Api]:
    """People who may work in the session of a change, and have no token of their own."""
    people = []
    for name in names:
        people.append(await api.as_user(name))
        given = await api.put(f"{V1}/sessions/{change['session_id']}/shares/{name}", json={"role": "member"})
        assert given.is_success, given.text
    return people


async def test_users_cannot_lift_the_objections_of_others(setup: tuple[Story, Api]) -> None:
    made, api = setup
    made.keep(f"github_enterprise_token_{await me(api)}", EVE)
    change = await proposed(made, api)
    url = f"{V1}/changes/{change['id']}"
    bob, carol = await shared(api, change, "bob", "carol")
    refused = await bob.post(f"{url}/request-changes", json={"body": "This deletes data."})
    assert refused.status_code == 201, refused.text
    assert (await api.post(f"{url}/merge")).status_code == 409
    assert (await carol.post(f"{url}/approve", json={"body": "Fine."})).status_code == 201
    reviews = made.pulls()[change["number"]]["reviews"]
    assert [(each["event"], each["user"]["login"]) for each in reviews] == [("COMMENT", "hutch-bot")] * 2
    assert "bob asks for changes" in reviews[0]["body"] and "This deletes data." in reviews[0]["body"]
    assert "carol approves" in reviews[1]["body"] and "Fine." in reviews[1]["body"]
    assert refused.json()["url"] == reviews[0]["html_url"]
    still = await api.post(f"{url}/merge")
    assert still.status_code == 409 and "bob asked for changes" in still.json()["detail"]
    assert "carol" not in still.json()["detail"]
    # Nor does somebody on GitHub who copies the mark of bob's review into one of their own.
    made.judge(change["number"], "ada", "APPROVE", reviews[0]["body"])
    assert (await api.post(f"{url}/merge")).status_code == 409
    assert (await bob.post(f"{url}/approve")).status_code == 201
    merged = await api.post(f"{url}/merge")
    assert (merged.status_code, merged.json()["overridden"]) == (200, [])


async def test_only_users_with_write_access_hold_a_merge_back(setup: tuple[Story, Api]) -> None:
    made, api = setup
    change = await proposed(made, api)
    made.judge(change["number"], "stranger", "REQUEST_CHANGES", "No!")
    merged = await api.post(f"{V1}/changes/{change['id']}/merge")
    assert (merged.status_code, merged.json()["overridden"]) == (200, [])


async def test_the_tokens_rights_force_nothing_for_users_without_any(tmp_path: Path) -> None:
    with story(tmp_path, permissions={"hutch-bot": "write", "eve": "write"}) as made:
        made.hub.state.tokens[EVE] = "eve"
        async with made.server(model=made.model()) as api:
            bob = await api.as_user("bob")
            asked = {"repoUrl": made.hub.url("acme/project"), "prompt": "Make slugs lower case."}
            done = await bob.post(
                "/api/code", json=asked, headers={"Accept": "application/json"}, timeout=DEADLINE_S
            )
            assert done.status_code == 200, done.text
            [change] = (await bob.get(f"{V1}/changes")).json()["items"]
            url, pull = f"{V1}/changes/{change['id']}", made.pulls()[change["number"]]
            made.judge(change["number"], "eve", "REQUEST_CHANGES", "Not yet.")
            refused = await bob.post(f"{url}/merge", json={"force": True})
            assert (refused.status_code, refused.json()["code"]) == (403, "denied")
            bob_id = await me(bob)
            assert f"github_enterprise_token_{bob_id}" in refused.json()["detail"]
            assert pull["state"] == "open"
            made.keep(f"github_enterprise_token_{bob_id}", EVE)
            forced = await bob.post(f"{url}/merge", json={"force": True})
            assert forced.status_code == 200 and len(forced.json()["overridden"]) == 1, forced.text
            noted = await audited(api, change)
            result = [(each["action"], each["user_id"], each["ok"]) for each in noted]
            assert result == [
                ("change.merge_forced", bob_id, False),
                ("change.merge_forced", bob_id, True),
                ("change.merged", bob_id, True),
            ]
            assert all("eve asked for changes" in each["detail"] for each in noted)


async def test_the_audit_names_reviewers_and_closers(setup: tuple[Story, Api]) -> None:
    made, api = setup
    change = await proposed(made, api)
    url = f"{V1}/changes/{change['id']}"
    [bob] = await shared(api, change, "bob")
    assert (await bob.post(f"{url}/request-changes", json={"body": "No."})).status_code == 201
    assert (await bob.post(f"{url}/approve")).status_code == 201
    assert (await api.post(f"{url}/close")).status_code == 204
    noted = await audited(api, change)
    assert [(each["action"], each["user_id"]) for each in noted] == [
        ("change.changes_requested", await me(bob)),
        ("change.approved", await me(bob)),
        ("change.closed", await me(api)),
    ]


@pytest.mark.parametrize("action", [pytest.param("comments", marks=pytest.mark.soak), "request-changes"])
async def test_a_repeated_request_with_its_key_posts_once(setup: tuple[Story, Api], action: str) -> None:
    made, api = setup
    change = await proposed(made, api)
    url = f"{V1}/changes/{change['id']}/{action}"
    kind = "reviews" if action == "request-changes" else action
    made.hub.fault(rf"POST .*/pulls/1/{kind}", 502, after=True, times=1)  # it is there, and nobody knows
    made.hub.fault(rf"GET .*/pulls/1/{kind}", 503, times=1 + 4)
    said = SLUG if action == "comments" else {"body": "No."}
    answers = [
        await api.post(url, json=said, headers={"Idempotency-Key": key}) for key in ("a", "a", "a", "b")
    ]
    assert [each.status_code for each in answers] == [503, 201, 201, 201], answers[1].text
    assert answers[1].json() == answers[2].json()
    there = made.pulls()[1][kind]
    assert len(there) == 2
    kept = (await api.get(f"{V1}/changes/{change['id']}/{kind}")).json()["items"]
    assert [each["id"] for each in kept] == [answers[1].json()["id"], answers[3].json()["id"]]


async def test_a_pull_request_closed_and_reopened_there_is_merged_here(setup: tuple[Story, Api]) -> None:
    made, api = setup
    change = await proposed(made, api)
    url = f"{V1}/changes/{change['id']}"
    pull = made.pulls()[change["number"]]
    for action, body in (("approve", {}), ("comments", SLUG), ("merge", {})):
        pull["state"] = "closed"
        refused = await api.post(f"{url}/{action}", json=body)
        assert refused.status_code == 409, refused.text
        assert (await api.get(url)).json()["state"] == "closed"
        pull["state"] = "open"
        done = await api.post(f"{url}/{action}", json=body)
        assert done.is_success, done.text
    assert (await api.get(url)).json()["state"] == "merged"
    assert (await api.post(f"{url}/close")).status_code == 409
