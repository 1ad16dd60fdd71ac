"""Changes over HTTP: proposed by a run; read, merged and closed by permitted users."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.forge.repositories import git, make_repository
from tests.gateway.api_server import V1, Api, cassette, serving
from tests.sessions.session_server import call

pytestmark = pytest.mark.anyio

WRITES = (
    {"calls": [{"tool": "write_file", "args": {"path": "new.txt", "content": "new\n"}}]},
    {"calls": [{"tool": "finish", "args": {"title": "Add new.txt", "summary": "It was missing."}}]},
)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "repo"
    make_repository(place, {"a.txt": "a\n"})
    return place


@pytest.fixture(scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    async with serving(tmp_path_factory.mktemp("server"), replies=WRITES) as opened:
        yield opened


async def proposed(api: Api, repository: Path) -> dict[str, object]:
    session = (await api.new_session(repository=str(repository), prompt="Add new.txt", deliver=True))["id"]
    await api.until(session, "idle")
    [change] = (await api.get(f"{V1}/changes?session={session}")).json()["items"]
    return dict(change)


async def test_a_change_is_read_and_merged(api: Api, repository: Path) -> None:
    change = await proposed(api, repository)
    assert (change["title"], change["state"], change["base"]) == ("Add new.txt", "open", "main")
    url = f"{V1}/changes/{change['id']}"
    assert (await api.get(url)).json() == change
    diff = await api.get(f"{url}/diff")
    assert diff.headers["content-type"].startswith("text/x-diff")
    assert "+new\n" in diff.text
    merged = await api.post(f"{url}/merge")
    assert merged.status_code == 200, merged.text
    assert git(repository, "rev-parse", "main").strip() == merged.json()["commit"]
    again = await api.post(f"{url}/merge")
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    assert (await api.post(f"{url}/close")).status_code == 409
    listed = f"{V1}/changes?session={change['session_id']}"
    assert (await api.get(f"{listed}&state=open")).json()["items"] == []
    assert [each["id"] for each in (await api.get(f"{listed}&state=merged")).json()["items"]] == [
        change["id"]
    ]


async def test_a_change_of_another_is_as_if_it_were_not_there(api: Api, repository: Path) -> None:
    change = await proposed(api, repository)
    bob = await api.as_user("bob")
    assert (await bob.get(f"{V1}/changes")).json()["items"] == []
    gone = "chg_01jd2m4c9k7w6t0q8n5x3vbaeh"
    for method, rest in (("GET", ""), ("GET", "/diff"), ("POST", "/merge"), ("POST", "/close")):
        answers = [await bob.request(method, f"{V1}/changes/{id}{rest}") for id in (change["id"], gone)]
        assert {answer.status_code for answer in answers} == {404}
        said = [answer.json()["detail"] for answer in answers]
        assert said[0].replace(str(change["id"]), "ID") == said[1].replace(gone, "ID")
    assert (await api.post(f"{V1}/changes/{change['id']}/close")).status_code == 204
    assert (await api.get(f"{V1}/changes/{change['id']}")).json()["state"] == "closed"
    branches = git(repository, "branch", "--list")
    assert str(change["branch"]) not in branches


async def test_a_change_with_requested_changes_is_merged_only_by_force(api: Api, repository: Path) -> None:
    change = await proposed(api, repository)
    url = f"{V1}/changes/{change['id']}"
    asked = await api.post(f"{url}/request-changes", json={"body": "Say why."})
    assert asked.status_code == 201, asked.text
    refused = await api.post(f"{url}/merge", json={"strategy": "merge"})
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert "asked for changes at" in refused.json()["detail"] and "usr_" not in refused.json()["detail"]
    assert (await api.get(url)).json()["state"] == "open"
    merged = await api.post(f"{url}/merge", json={"force": True})
    assert merged.status_code == 200, merged.text
    assert [each.partition(" at ")[0] for each in merged.json()["overridden"]] == ["owner asked for changes"]


async def test_of_a_concurrent_merge_and_close_one_succeeds(api: Api, repository: Path) -> None:
    before = git(repository, "rev-list", "--max-parents=0", "main")
    for _ in range(3):
        git(repository, "reset", "-q", "--hard", before)
        change = await proposed(api, repository)
        url = f"{V1}/changes/{change['id']}"
        merged, closed = await asyncio.gather(api.post(f"{url}/merge", json={}), api.post(f"{url}/close"))
        result = (await api.get(url)).json()["state"]
        moved = git(repository, "rev-parse", "main") != before
        assert (merged.status_code, closed.status_code, result, moved) in (
            (200, 409, "merged", True),
            (409, 204, "closed", False),
        )


async def test_changes_that_are_merged_at_once_are_all_merged(
    api: Api, repository: Path, tmp_path: Path
) -> None:
    ids = []
    for name in ("one", "two", "three"):
        model = cassette(
            tmp_path / f"{name}.json",
            call("write_file", path=f"{name}.txt", content=name),
            call("finish", title=f"Add {name}", summary="It was missing."),
        )
        session = await api.new_session(
            repository=str(repository), prompt=f"Add {name}", model=model, deliver=True
        )
        await api.until(session["id"], "idle")
        [change] = (await api.get(f"{V1}/changes?session={session['id']}")).json()["items"]
        ids.append(change["id"])
    merged = await asyncio.gather(*(api.post(f"{V1}/changes/{id}/merge", json={}) for id in ids))
    assert [each.status_code for each in merged] == [200, 200, 200], [each.text for each in merged]
    assert all((repository / f"{name}.txt").read_text() == name for name in ("one", "two", "three"))
    assert git(repository, "status", "--porcelain") == ""
