"""Comments on lines, approvals and merge strategies over HTTP."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.forge.repositories import commit, git, make_repository
from tests.gateway.api_server import V1, Api, serving

pytestmark = pytest.mark.anyio

WRITES = (
    {"calls": [{"tool": "write_file", "args": {"path": "new.txt", "content": "new\n"}}]},
    {"calls": [{"tool": "edit_file", "args": {"path": "a.txt", "edits": [{"old": "2\n", "new": "two\n"}]}}]},
    {"calls": [{"tool": "finish", "args": {"title": "Add new.txt", "summary": "It was missing."}}]},
)


@pytest.fixture(scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    async with serving(tmp_path_factory.mktemp("server"), replies=WRITES) as opened:
        yield opened


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    make_repository(tmp_path / "repo", {"a.txt": "1\n2\n3\n", "far.txt": "x\n" * 50})
    return tmp_path / "repo"


@pytest.fixture(scope="module")
async def unchanged(api: Api, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A change for tests that leave it as it is."""
    place = tmp_path_factory.mktemp("unchanged") / "repo"
    make_repository(place, {"a.txt": "1\n2\n3\n", "far.txt": "x\n" * 50})
    return await proposed(api, place)


async def proposed(api: Api, repository: Path) -> dict[str, Any]:
    session = (await api.new_session(repository=str(repository), prompt="Add new.txt", deliver=True))["id"]
    await api.until(session, "idle")
    [change] = (await api.get(f"{V1}/changes?session={session}")).json()["items"]
    return dict(change)


async def test_a_comment_is_made_listed_and_dealt_with(api: Api, repository: Path) -> None:
    change = await proposed(api, repository)
    url = f"{V1}/changes/{change['id']}"
    said = {"path": "a.txt", "line": 2, "body": "Why?", "severity": "should", "commit": change["commit"]}
    made = await api.post(f"{url}/comments", json=said)
    assert made.status_code == 201, made.text
    comment = made.json()
    assert {name: comment[name] for name in said} == said
    assert comment["side"] == "new" and comment["author"].startswith("usr_")
    old = await api.post(
        f"{url}/comments", json={"path": "a.txt", "line": 2, "side": "old", "body": "Was fine."}
    )
    outside = await api.post(f"{url}/comments", json={"path": "far.txt", "line": 50, "body": "Here too."})
    assert (old.status_code, outside.status_code) == (201, 201)
    listed = (await api.get(f"{url}/comments?limit=2")).json()
    assert [each["body"] for each in listed["items"]] == ["Why?", "Was fine."]
    rest = (await api.get(f"{url}/comments?cursor={listed['next']}")).json()
    assert [each["body"] for each in rest["items"]] == ["Here too."] and rest["next"] is None
    resolved = (await api.post(f"{url}/comments/{comment['id']}/resolve")).json()
    assert resolved["resolved_ms"] > 0 and resolved["resolved_by"] == comment["author"]
    assert (await api.post(f"{url}/comments/{comment['id']}/resolve")).json() == resolved
    still = (await api.get(f"{url}/comments?resolved=false")).json()["items"]
    assert [each["id"] for each in still] == [old.json()["id"], outside.json()["id"]]
    assert (await api.post(f"{url}/comments/cmt_none/resolve")).status_code == 404


@pytest.mark.parametrize(
    ("said", "status", "why"),
    [
        ({"path": "a.txt", "line": 4}, 400, "'a.txt' has 3 lines, so there is no line 4"),
        ({"path": "nowhere.txt", "line": 1}, 400, "no file 'nowhere.txt'"),
        ({"path": "new.txt", "line": 1, "side": "old"}, 400, "no file 'new.txt'"),
        ({"path": "../../etc/passwd", "line": 1}, 400, "no file"),
        ({"path": "--help", "line": 1}, 400, "no file"),
        ({"path": "a\x00b", "line": 1}, 400, "no file"),
        ({"path": "a.txt", "line": 0}, 422, ""),
        ({"path": "a.txt", "line": 1, "severity": "fatal"}, 422, ""),
        ({"path": "a.txt", "line": 1, "commit": "0" * 40}, 409, "Read it again"),
        ({"path": "a.txt", "line": 1, "body": "\x07"}, 400, "is empty"),
    ],
)
async def test_a_place_that_is_not_there_is_refused(
    api: Api, unchanged: dict[str, Any], said: dict[str, Any], status: int, why: str
) -> None:
    comments = f"{V1}/changes/{unchanged['id']}/comments"
    answered = await api.post(comments, json={"body": "x", **said})
    assert (answered.status_code, why in answered.json()["detail"]) == (status, True), answered.text
    assert (await api.get(comments)).json()["items"] == []


async def test_verdicts_have_author_time_and_commit(api: Api, repository: Path) -> None:
    change = await proposed(api, repository)
    url = f"{V1}/changes/{change['id']}"
    assert (await api.post(f"{url}/request-changes", json={"body": " "})).status_code == 400
    refused = (await api.post(f"{url}/request-changes", json={"body": "Test it."})).json()
    good = (await api.post(f"{url}/approve")).json()
    assert (await api.post(f"{url}/approve", json={"commit": "1" * 40})).status_code == 409
    listed = (await api.get(f"{url}/reviews")).json()["items"]
    assert listed == [refused, good]
    assert [(each["verdict"], each["commit"]) for each in listed] == [
        ("changes_requested", change["commit"]),
        ("approved", change["commit"]),
    ]
    assert (await api.post(f"{url}/close")).status_code == 204
    assert (await api.post(f"{url}/approve")).status_code == 409


async def test_comments_and_reviews_are_hidden_from_other_users(api: Api, repository: Path) -> None:
    change = await proposed(api, repository)
    bob = await api.as_user("bob")
    for method, rest in (
        ("GET", "comments"),
        ("POST", "comments"),
        ("POST", "comments/cmt_x/resolve"),
        ("GET", "reviews"),
        ("POST", "approve"),
        ("POST", "request-changes"),
    ):
        said = {"path": "a.txt", "line": 1, "body": "x"} if rest == "comments" else {"body": "x"}
        for change_id in (change["id"], "chg_01jd2m4c9k7w6t0q8n5x3vbaeh"):
            answered = await bob.request(
                method, f"{V1}/changes/{change_id}/{rest}", json=said if method == "POST" else None
            )
            assert answered.status_code == 404, (method, rest)
    shared = await api.put(f"{V1}/sessions/{change['session_id']}/shares/bob", json={"role": "observer"})
    assert shared.status_code in (200, 204), shared.text
    assert (await bob.get(f"{V1}/changes/{change['id']}/comments")).status_code == 200
    assert (await bob.post(f"{V1}/changes/{change['id']}/approve")).status_code == 403


async def test_the_merge_strategy_can_be_chosen_and_conflicts_have_paths(api: Api, repository: Path) -> None:
    change = await proposed(api, repository)
    url = f"{V1}/changes/{change['id']}/merge"
    commit(repository, {"a.txt": "1\nzwei\n3\n"})
    before = git(repository, "rev-parse", "main")
    forward = await api.post(url, json={"strategy": "fast-forward"})
    assert (forward.status_code, "has new commits" in forward.json()["detail"]) == (409, True)
    for strategy in ("merge", "squash", None):
        conflict = await api.post(url, json={"strategy": strategy})
        assert (conflict.status_code, conflict.json()["paths"]) == (409, ["a.txt"]), conflict.text
    assert git(repository, "rev-parse", "main") == before
    assert (await api.post(url, json={"strategy": "octopus"})).status_code == 422
    assert (await api.post(url, json={"strategy": "rebase"})).status_code == 400  # for pull requests
    git(repository, "reset", "-q", "--hard", "HEAD~1")
    merged = await api.post(url, json={"strategy": "merge"})
    assert merged.status_code == 200, merged.text
    parents = git(repository, "rev-list", "--parents", "-1", "main").split()
    assert parents == [merged.json()["commit"], git(repository, "rev-parse", "main~"), change["commit"]]
