"""A repository on the server: the checked path is the one that is used, and Hutch's own data is refused."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.forge.repositories import git
from tests.gateway.api_server import V1, Api, serving
from tests.sessions.session_server import repository

pytestmark = pytest.mark.anyio

WRITES = (
    {"calls": [{"tool": "write_file", "args": {"path": "new.txt", "content": "new\n"}}]},
    {"calls": [{"tool": "finish", "args": {"title": "Add new.txt", "summary": "It was missing."}}]},
)


def swap_for_link(directory: Path, *, to: Path) -> None:
    """Replace a directory of a repository by a link, as a merge can."""
    directory.rename(directory.with_name(f"{directory.name}-away"))
    directory.symlink_to(to)


@asynccontextmanager
async def one_run_at_a_time(place: Path) -> AsyncIterator[tuple[Api, Api]]:
    """An owner and a member of a server whose only worker is busy until `end` is given."""
    slow = [{"text": "Thinking.", "delay_s": 600, "times": 100}]
    settings = {"repository_roots": [str(place / "git")]}
    async with serving(place, replies=slow, server=settings, sessions={"runs": 1}) as api:
        yield api, await api.as_user("mallory")


async def blocked(api: Api) -> str:
    session = await api.new_session(prompt="Think")
    await api.until(session["id"], "running")
    return str(session["id"])


@pytest.mark.parametrize("how", ["link", "link above", "directory above"])
async def test_a_member_does_not_read_the_keys_by_a_link_that_comes_later(tmp_path: Path, how: str) -> None:
    project = repository(tmp_path / "git/x")
    (project / "above/sub").mkdir(parents=True)
    (project / "above/sub/a.txt").write_text("a\n")
    data = tmp_path / "home/data"
    async with one_run_at_a_time(tmp_path) as (api, mallory):
        busy = await blocked(api)
        what = {"repository": str(project / "above/sub")}
        queued = await mallory.new_session(**what, plain_directory=True)
        if how == "link":
            swap_for_link(project / "above/sub", to=data / "keys")
        else:
            away = tmp_path / "git/y"
            away.mkdir()
            (away / "sub").symlink_to(data / "keys")
            (project / "above").rename(project / "below")
            away.rename(project / "above") if how == "directory above" else (
                (project / "above").symlink_to(away)
            )
        await api.give(busy, type="end", reason="")
        ended = await mallory.until(queued["id"], "idle", "parked", "ended")
        assert ended["state"] == "ended" and "link" in ended["reason"], ended
        token = await mallory.get(f"{V1}/sessions/{queued['id']}/files/local.token")
        assert token.status_code in (404, 409)
        assert (data / "keys/signing.pem").exists()


@pytest.mark.parametrize("step", ["deliver", "merge", "diff", "close"])
async def test_a_change_goes_into_no_repository_outside_the_roots(tmp_path: Path, step: str) -> None:
    project, outside = repository(tmp_path / "git/x"), repository(tmp_path / "private")
    settings = {"repository_roots": [str(tmp_path / "git")]}
    async with serving(tmp_path, replies=WRITES, server=settings) as api:
        mallory = await api.as_user("mallory")
        if step == "deliver":
            session = await mallory.ready_session(repository=str(project), deliver=True)
            swap_for_link(project, to=outside)
            await mallory.give(session, type="prompt", text="Add new.txt")
        else:
            session = (await mallory.new_session(repository=str(project), deliver=True, prompt="Add it"))[
                "id"
            ]
        await mallory.until(session, "idle")
        if step == "deliver":
            [ended] = [each for each in await mallory.events(session) if each["type"] == "delivery.ended"]
            assert ended["outcome"] == "failed" and "link" in ended["reason"], ended
        else:
            [change] = (await mallory.get(f"{V1}/changes?session={session}")).json()["items"]
            shutil.rmtree(outside)
            shutil.copytree(project, outside)
            swap_for_link(project, to=outside)
            before = git(outside, "for-each-ref")
            url = f"{V1}/changes/{change['id']}"
            for who in (mallory, api):  # nor for an owner, who looks at what a member has named
                answered = await who.request("GET" if step == "diff" else "POST", f"{url}/{step}")
                assert answered.status_code == 409 and "link" in answered.text, answered.text
            assert git(outside, "for-each-ref") == before
        assert "hutch/" not in git(outside, "branch", "--list") or step != "deliver"


async def test_a_linked_worktree_leads_a_member_to_no_repository_outside_the_roots(tmp_path: Path) -> None:
    outside = repository(tmp_path / "private")
    (tmp_path / "git").mkdir()
    git(outside, "worktree", "add", "--quiet", str(tmp_path / "git/linked"))
    settings = {"repository_roots": [str(tmp_path / "git")]}
    async with serving(tmp_path, server=settings) as api:
        mallory = await api.as_user("mallory")
        refused = await mallory.post(f"{V1}/sessions", json={"repository": str(tmp_path / "git/linked")})
        assert refused.status_code == 403, refused.text
        await api.ready_session(repository=str(tmp_path / "git/linked"))


@pytest.mark.parametrize("where", ["data", "data/keys", "data/workspaces", ".", ".."])
async def test_directories_of_hutch_are_refused_as_repositories(tmp_path: Path, where: str) -> None:
    async with serving(tmp_path / "above") as api:
        named = (tmp_path / "above/home" / where).resolve()
        named.mkdir(exist_ok=True)
        for body in ({"repository": str(named)}, {"repository": str(named), "plain_directory": True}):
            refused = await api.post(f"{V1}/sessions", json=body)
            assert (refused.status_code, refused.json()["code"]) == (403, "denied"), refused.text
        code = {"repoUrl": str(named), "prompt": "x"}
        assert (await api.post("/api/code", json=code)).status_code == 403


async def test_a_directory_without_git_is_copied_only_on_request(tmp_path: Path) -> None:
    plain = tmp_path / "git/plain"
    plain.mkdir(parents=True)
    (plain / ".env").write_text("PASSWORD=1\n")
    async with serving(tmp_path, server={"repository_roots": [str(tmp_path / "git")]}) as api:
        for who in (api, await api.as_user("bob")):
            code = {"repoUrl": str(plain), "prompt": "x"}
            for answered, option in (
                (await who.post(f"{V1}/sessions", json={"repository": str(plain)}), "plain_directory: true"),
                (await who.post("/api/code", json=code), "or allow copying it: plainDirectory: true."),
            ):
                assert answered.status_code == 400, answered.text
                assert "1 file, 11 bytes, including names typical of secrets: .env" in answered.text
                assert option in answered.text
            session = await who.ready_session(repository=str(plain), plain_directory=True)
            listed = (await who.get(f"{V1}/sessions/{session}/files?ignored=true")).json()
            assert [each["path"] for each in listed["items"]] == [".env"]


async def test_a_repository_whose_git_goes_away_meanwhile_is_not_copied_whole(tmp_path: Path) -> None:
    project = repository(tmp_path / "git/x")
    (project / ".env").write_text("PASSWORD=1\n")
    async with one_run_at_a_time(tmp_path) as (api, bob):
        busy = await blocked(api)
        queued = await bob.new_session(repository=str(project))
        (project / ".git").rename(tmp_path / "away")
        await api.give(busy, type="end", reason="")
        ended = await bob.until(queued["id"], "idle", "parked", "ended")
        assert ended["state"] == "ended" and "not a git repository" in ended["reason"]


@pytest.mark.parametrize("where", ["/etc", "/", "/root", "/usr/share", "/proc/self", "/tmp"])
async def test_directories_of_the_system_are_nobodys_repository(api: Api, where: str) -> None:
    for body in ({"repository": where}, {"repository": where, "plain_directory": True}):
        refused = await api.post(f"{V1}/sessions", json=body)
        assert (refused.status_code, refused.json()["code"]) == (403, "denied"), refused.text


async def test_home_directories_are_not_revealed(api: Api) -> None:
    said = set()
    for user in ("root", "daemon", "nobody-by-that-name", ""):
        for who in (api, await api.as_user("bob")):
            name = f"~{user}/x"
            answered = [
                await who.post(f"{V1}/sessions", json={"repository": name}),
                await who.post("/api/code", json={"repoUrl": name, "prompt": "x"}),
            ]
            assert [each.status_code for each in answered] == [400, 400]
            said |= {each.json()["detail"].replace(name, "NAME") for each in answered}
    assert len(said) == 1, said
