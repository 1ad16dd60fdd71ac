"""The branches of a repository, for those who may open a session with it. Hostile names do no harm."""

from pathlib import Path

import pytest

from hutch.flows import repository_branches
from tests.forge.repositories import git, make_repository
from tests.forge.repositories import serving as serving_git
from tests.gateway.api_server import V1, Api, serving

pytestmark = pytest.mark.anyio


async def branches(api: Api, repository: object) -> dict[str, object]:
    answered = await api.get(f"{V1}/repository-branches", params={"repository": str(repository)})
    assert answered.status_code == 200, answered.text
    found: dict[str, object] = answered.json()
    return found


async def status(api: Api, repository: object) -> int:
    return (await api.get(f"{V1}/repository-branches", params={"repository": str(repository)})).status_code


async def test_local_and_remote_branches_are_listed_the_default_first(tmp_path: Path) -> None:
    project = tmp_path / "served/project"
    make_repository(project, {"a": "1"}, branch="trunk")
    for name in ("feature/one", "old"):
        git(project, "branch", name)
    expected = {"default": "trunk", "branches": ["trunk", "feature/one", "old"], "more": False}
    with serving_git(tmp_path / "served") as server:
        async with serving(tmp_path / "one", server={"repository_hosts": ["127.0.0.0/8"]}) as api:
            assert await branches(api, project) == expected
            assert await branches(api, server.url("project/.git")) == expected


async def test_only_those_who_may_open_a_session_with_a_repository_see_its_branches(tmp_path: Path) -> None:
    make_repository(tmp_path / "git/project", {"a": "1"})
    make_repository(tmp_path / "private", {"a": "1"})
    (tmp_path / "git/link").symlink_to(tmp_path / "private")
    (tmp_path / "git/plain").mkdir()
    with serving_git(tmp_path) as server:
        async with serving(tmp_path / "home", server={"repository_roots": [str(tmp_path / "git")]}) as api:
            bob = await api.as_user("bob")
            assert (await branches(bob, tmp_path / "git/project"))["branches"] == ["main"]
            for wrong in (tmp_path / "private", tmp_path / "git/link", tmp_path / "git/../private", "/"):
                assert await status(bob, wrong) == 403, wrong
            assert await status(bob, tmp_path / "git/plain") == 400
            for who in (api, bob):
                assert await status(who, server.url("private/.git")) == 403
                assert await status(who, "http://169.254.169.254/latest") == 403
                for wrong in ("ext::sh -c id", "-u/x", "https://a:secret@example.com/a"):
                    assert await status(who, wrong) == 400, wrong
            assert server.requests == []
            assert await status(await api.as_user("cleo", "candidate"), tmp_path / "git/project") == 403
            assert await status(await api.as_user("rea", scopes="read"), tmp_path / "git/project") == 403
            assert await status(await api.as_nobody(), tmp_path / "git/project") == 401


async def test_hostile_branches_run_nothing_and_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "served/project"
    commit = make_repository(project, {"a": "1"}, branch="zz-main")
    marker = tmp_path / "ran"
    git(project, "config", "core.fsmonitor", f"touch {marker}")
    git(project, "config", "alias.for-each-ref", f"!touch {marker}")
    secret = "ghp_" + "a1B2" * 9
    hostile = ["--upload-pack=x", "<b>x</b>", "\u202egpj.exe", secret]
    refs = "".join(f"create refs/heads/{name} {commit}\n" for name in hostile)
    git(project, "update-ref", "--stdin", stdin=refs.encode())
    (project / ".git/refs/heads").joinpath(b"\xff".decode(errors="surrogateescape")).write_text(commit + "\n")
    with serving_git(tmp_path / "served") as server:
        async with serving(tmp_path / "one", server={"repository_hosts": ["127.0.0.0/8"]}) as api:
            for repository in (project, server.url("project/.git")):
                found = await branches(api, repository)
                assert found["branches"] == ["zz-main", "<b>x</b>", "\u202egpj.exe"], repository
            for number in range(4):
                git(project, "branch", f"b{number}")
            monkeypatch.setattr(repository_branches, "MAX_BRANCHES", 3)
            for repository in (project, server.url("project/.git")):
                found = await branches(api, repository)
                assert found["default"] == "zz-main" and found["more"] is True
                assert len(found["branches"]) <= 3 and found["branches"][0] == "zz-main"  # type: ignore[index,arg-type]
    assert not marker.exists()
