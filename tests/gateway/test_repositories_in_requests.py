"""Repositories in requests are checked on arrival, for owners and members alike."""

from pathlib import Path

import pytest

from tests.forge.repositories import make_repository
from tests.forge.repositories import serving as serving_git
from tests.gateway.api_server import V1, Api, serving
from tests.sessions.session_server import repository

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1:1/a/b", "http://169.254.169.254/latest/meta-data", "ssh://git@10.0.0.1/a/b"),
        *("http://[::ffff:127.0.0.1]/a", "git@192.168.1.1:a/b", "https://localhost/a/b"),
    ],
)
async def test_private_machines_are_refused(api: Api, url: str) -> None:
    bob = await api.as_user("bob")
    for who in (api, bob):
        for answered in (
            await who.post("/api/code", json={"repoUrl": url, "prompt": "x"}),
            await who.post(f"{V1}/sessions", json={"repository": url}),
        ):
            assert answered.status_code == 403 and "server.repository_hosts" in answered.text


@pytest.mark.parametrize(
    "url", ["ext::sh -c id", "fd::3", "git://example.com/a", "ftp://example.com/a", "-u/x"]
)
async def test_transports_that_run_programs_are_refused(api: Api, url: str) -> None:
    answered = await api.post("/api/code", json={"repoUrl": url, "prompt": "x"})
    assert answered.status_code == 400


async def test_an_allowed_host_works_and_a_refused_one_is_not_contacted(tmp_path: Path) -> None:
    make_repository(tmp_path / "served/project", {"a": "1"})
    with serving_git(tmp_path / "served") as server:
        url = server.url("project/.git")
        async with serving(tmp_path / "one") as api:
            assert (await api.post(f"{V1}/sessions", json={"repository": url})).status_code == 403
            assert server.requests == []
        async with serving(tmp_path / "two", server={"repository_hosts": ["127.0.0.0/8"]}) as api:
            session = await api.ready_session(repository=url)
            listed = (await api.get(f"{V1}/sessions/{session}/files")).json()
            assert [each["path"] for each in listed["items"]] == ["a"]


async def test_members_name_repositories_under_the_roots_and_no_others(tmp_path: Path) -> None:
    roots = tmp_path / "git"
    inside, outside = repository(roots / "project"), repository(tmp_path / "private")
    (roots / "link").symlink_to(outside)
    async with serving(tmp_path, server={"repository_roots": [str(roots)]}) as api:
        bob = await api.as_user("bob")
        for wrong in (outside, roots / "link", roots / "../private", f"file://{outside}", f"{roots}-x", "/"):
            answered = await bob.post(f"{V1}/sessions", json={"repository": str(wrong)})
            assert answered.status_code == 403, wrong
        for right in (inside, f"file://{inside}"):
            session = await bob.new_session(repository=str(right))
            assert (await bob.until(session["id"], "idle", "parked"))["repository"] == str(inside)
        assert (await api.post(f"{V1}/sessions", json={"repository": str(outside)})).status_code == 201
