"""From a prompt to one pull request: real gh, real git, real jails, and a GitHub that checks who asks."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import RSAKey

from hutch.store.users import Users
from tests.deadline import DEADLINE_S
from tests.forge.github_server import HOST
from tests.forge.repositories import commit, git
from tests.gateway.api_server import V1, Api, eventually
from tests.sessions.session_server import call, repository
from tests.stories.github_story import (
    FINISH,
    FINISH_MORE,
    FIX,
    MORE,
    TOKEN,
    Story,
    code,
    dumped,
    everything_below,
    story,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Story]:
    with story(tmp_path) as made:
        yield made


async def ended(api: Api, session_id: str, times: int) -> dict[str, Any]:
    """The last of so many deliveries of a session."""

    async def poll() -> dict[str, Any] | None:
        found = [each for each in await api.events(session_id) if each["type"] == "delivery.ended"]
        return found[-1] if len(found) >= times else None

    return dict(await eventually(poll))


async def test_a_prompt_becomes_a_pull_request(setup: Story) -> None:
    async with setup.server() as api:
        result = await code(api, setup, labels=["hutch"], reviewers=["ada"], draft=True)
        assert (result["outcome"], result["message"]) == ("done", "As they should be, says @ada. Fixes #7.")
        events = await api.events(result["session"])
        changes = (await api.get(f"{V1}/changes")).json()["items"]
    steps = [each["step"] for each in events if each["type"] == "step.reached"]
    assert steps == ["cloning", "inspecting", "branching", "committing", "pushing", "opening"]
    (pull,) = setup.pulls().values()
    assert result["pullRequest"]["url"] == "https://127.0.0.1/acme/project/pull/1"
    assert (pull["title"], pull["base"], pull["branch"]) == (
        *("Slugs are lower case", "main", "hutch/slugs-are-lower-case"),
    )
    assert (pull["draft"], pull["labels"], pull["reviewers"]) == (True, ["hutch"], ["ada"])
    assert f"[{result['session']}](https://hutch.example.com/sessions/{result['session']})" in pull["body"]
    assert "As they should be" in pull["body"] and "**Tests:** none were run" in pull["body"]
    assert "@ada" not in pull["body"] and "Fixes #7" not in pull["body"]  # nobody is called, nothing closed
    repo = setup.hub.repository("acme/project")
    assert git(repo.path, "show", f"{pull['branch']}:slug.py").endswith("text.lower()")
    assert len(changes) == 1 and changes[0]["branch"] == pull["branch"]


async def test_a_models_words_do_nothing_in_titles_and_commits_but_the_users_may(setup: Story) -> None:
    finish = call("finish", title="Fixes #7 for @octocat", summary="Closes GH-8, `@octocat.")
    async with setup.server() as api:
        await code(api, setup, model=setup.model(FIX, finish))
        await code(api, setup, model=setup.model(MORE, finish, name="d.json"), title="Fixes #9")
    first, second = setup.pulls().values()
    path = setup.hub.repository("acme/project").path
    texts = [git(path, "log", "-1", "--format=%B", each["branch"]) for each in (first, second)]
    for text in (first["title"], first["body"], second["body"], *texts):
        assert "@octocat" not in text and "Fixes #7" not in text and "Closes GH-8" not in text
    assert first["title"].replace("\u2060", "") == "Fixes #7 for @octocat"
    assert second["title"] == "Fixes #9" and texts[1].startswith("Fixes #9\n")


@pytest.mark.parametrize("elsewhere", [True, False])
async def test_a_branch_that_is_spelled_out_is_the_branch(
    setup: Story, tmp_path: Path, elsewhere: bool
) -> None:
    source = setup.hub.url("acme/project") if elsewhere else str(repository(tmp_path / "local"))
    async with setup.server() as api:
        result = await code(api, setup, repoUrl=source, branch="refs/heads/main")
    assert (result["outcome"], result["pullRequest"] and result["pullRequest"]["base"]) == ("done", "main")


async def test_tasks_of_one_title_at_once_are_all_delivered(setup: Story) -> None:
    finish = call("finish", title="Tidy up", summary="")
    writes = [call("write_file", path="slug.py", content=f"# {number}\n") for number in range(4)]
    models = [setup.model(write, finish, name=f"{number}.json") for number, write in enumerate(writes)]
    async with setup.server() as api:
        results = await asyncio.gather(*(code(api, setup, model=each) for each in models))
    assert [each["outcome"] for each in results] == ["done"] * 4, [each["message"] for each in results]
    assert {each["branch"] for each in setup.pulls().values()} == {
        *("hutch/tidy-up", "hutch/tidy-up-2", "hutch/tidy-up-3", "hutch/tidy-up-4"),
    }


async def test_the_token_is_found_nowhere(setup: Story) -> None:
    run = call(
        "bash", command="env; cat /proc/*/environ /proc/*/cmdline; git config -l; find / -name '*.sock'"
    )
    async with setup.server() as api:
        result = await code(api, setup, model=setup.model(run, FIX, FINISH))
        seen = dumped(await api.events(result["session"])) + dumped(result)
    assert result["outcome"] == "done"
    assert TOKEN not in seen
    assert TOKEN in dumped(sorted(setup.hub.state.tokens))  # what is searched for is what was used
    found = [path for path, content in everything_below(setup.place) if TOKEN.encode() in content]
    assert found == []


async def test_what_follows_goes_on_top_of_the_same_pull_request(setup: Story) -> None:
    async with setup.server() as api:
        model = setup.model(FIX, FINISH, MORE, FINISH_MORE)
        result = await code(api, setup, model=model, labels=["hutch"], reviewers=["ada"])
        setup.pulls()[1]["labels"].clear()  # somebody did not want it
        first = setup.hub.repository("acme/project").tip("hutch/slugs-are-lower-case")
        await api.give(result["session"], type="prompt", text="Strip them, too.")
        assert (await ended(api, result["session"], 2))["outcome"] == "proposed"
        said = [each for each in await api.events(result["session"]) if each["type"] == "message.sent"]
        assert said == []  # the same shells go on, and nobody was stopped
        changes = (await api.get(f"{V1}/changes")).json()["items"]
    (pull,) = setup.pulls().values()
    repo = setup.hub.repository("acme/project")
    assert git(repo.path, "rev-parse", f"{pull['branch']}^") == first
    assert "strip()" in git(repo.path, "show", f"{pull['branch']}:slug.py")
    assert "As they should be" in pull["body"] and "And stripped." in pull["body"]
    assert pull["title"] == "Slugs are lower case"
    assert [each["commit"] for each in changes] == [repo.tip(pull["branch"])]
    assert setup.hub.count("PullRequestCreate") == setup.hub.count("requested_reviewers") == 1
    assert (pull["labels"], pull["reviewers"]) == ([], ["ada"])


async def test_what_follows_a_merged_one_is_a_new_pull_request(setup: Story) -> None:
    async with setup.server() as api:
        result = await code(api, setup, model=setup.model(FIX, FINISH, MORE, FINISH_MORE))
        setup.hub.state.close(setup.hub.repository("acme/project"), 1, merged=True)
        await api.give(result["session"], type="prompt", text="Strip them, too.")
        assert (await ended(api, result["session"], 2))["outcome"] == "proposed"
        changes = (await api.get(f"{V1}/changes")).json()["items"]
    assert [each["state"] for each in setup.pulls().values()] == ["closed", "open"]
    assert [each["state"] for each in changes] == ["open", "merged"]


async def test_other_authors_commits_on_the_branch_are_not_overwritten(setup: Story) -> None:
    async with setup.server() as api:
        result = await code(api, setup, model=setup.model(FIX, FINISH, MORE, FINISH_MORE))
        repo, branch = setup.hub.repository("acme/project"), "hutch/slugs-are-lower-case"
        git(setup.place / "made", "fetch", "-q", str(repo.path), branch)
        git(setup.place / "made", "checkout", "-q", "FETCH_HEAD")
        theirs = commit(setup.place / "made", {"theirs": "1"})
        git(setup.place / "made", "push", "-q", str(repo.path), f"HEAD:{branch}")
        await api.give(result["session"], type="prompt", text="Strip them, too.")
        last = await ended(api, result["session"], 2)
    assert last["outcome"] == "failed" and "has new commits that Hutch did not push" in last["reason"]
    assert repo.tip(branch) == theirs


async def test_a_local_change_grows_with_what_follows(tmp_path: Path, setup: Story) -> None:
    local = repository(tmp_path / "local")
    async with setup.server() as api:
        model = setup.model(FIX, FINISH, MORE, FINISH_MORE)
        result = await code(api, setup, repoUrl=str(local), model=model)
        await api.give(result["session"], type="prompt", text="Strip them, too.")
        assert (await ended(api, result["session"], 2))["outcome"] == "proposed"
        changes = (await api.get(f"{V1}/changes")).json()["items"]
    log = git(local, "log", "--format=%s", "main..hutch/slugs-are-lower-case").splitlines()
    assert log == ["Slugs are stripped", "Slugs are lower case"]
    assert [each["commit"] for each in changes] == [git(local, "rev-parse", "hutch/slugs-are-lower-case")]
    assert setup.pulls() == {}


async def test_without_the_right_to_push_it_comes_from_a_fork(setup: Story) -> None:
    setup.hub.repository("acme/project").permissions["hutch-bot"] = "read"
    async with setup.server() as api:
        result = await code(api, setup, model=setup.model(FIX, FINISH, MORE, FINISH_MORE))
        assert result["outcome"] == "done"
        await api.give(result["session"], type="prompt", text="Strip them, too.")
        assert (await ended(api, result["session"], 2))["outcome"] == "proposed"
    (pull,) = setup.pulls().values()
    assert pull["source"].full_name == "hutch-bot/project"
    assert setup.hub.repository("acme/project").branches() == ["main"]


async def test_each_user_has_a_token_of_their_own(setup: Story) -> None:
    setup.hub.state.tokens["tok_of_bob_0123456789"] = "ada"
    flags = {"model": setup.model()}
    async with setup.server(**flags) as api:
        bob = await api.as_user("bob")
        (id,) = [user.id for user in await Users(api.server.rows).list() if user.name == "bob"]
        setup.keep(f"github_enterprise_token_{id}", "tok_of_bob_0123456789")
        asked = {"repoUrl": setup.hub.url("acme/project"), "prompt": "Make slugs lower case."}
        answered = await bob.post("/api/code", json=asked, headers={"Accept": "application/json"})
    assert answered.json()["outcome"] == "done", answered.text
    (pull,) = setup.pulls().values()
    assert pull["user"] == {"login": "ada"}


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        ("echo 'error: GH006: Protected branch update failed.' >&2; exit 1", "protects this branch"),
        # Other messages are in the tests of failures of git.
        pytest.param("echo 'Sign it, please.' >&2; exit 1", "Sign it, please", marks=pytest.mark.soak),
        pytest.param("echo 'error: GH001: Large files.' >&2; exit 1", "too large", marks=pytest.mark.soak),
    ],
)
async def test_a_refused_push_is_reported_and_can_be_retried(setup: Story, hook: str, words: str) -> None:
    refuse = setup.hub.repository("acme/project").path / "hooks/pre-receive"
    refuse.parent.mkdir(exist_ok=True)
    refuse.write_text(f"#!/bin/sh\n{hook}\n")
    refuse.chmod(0o755)
    async with setup.server() as api:
        result = await code(api, setup)
        assert result["outcome"] == "not_delivered" and words in result["message"]
        assert setup.pulls() == {}
        refuse.unlink()
        again = await api.post(f"{V1}/runs/{result['run']}/deliver")
        assert again.status_code == 202, again.text
        assert (await ended(api, result["session"], 2))["outcome"] == "proposed"
        run = await eventually_ended(api, result["run"])
        assert run["outcome"] == "done"
        waited = await api.get(f"/api/code/{result['run']}", headers={"Accept": "application/json"})
        assert waited.json()["outcome"] == "done"
        events = await api.events(result["session"])
    assert len(setup.pulls()) == 1
    assert [each["type"] for each in events].count("run.ended") == 1


async def eventually_ended(api: Api, run_id: str) -> dict[str, Any]:
    async def poll() -> dict[str, Any] | None:
        found = (await api.get(f"{V1}/runs/{run_id}")).json()
        return found if found["state"] == "ended" else None

    return dict(await eventually(poll))


@pytest.mark.parametrize(
    ("pattern", "status", "words"),
    [
        pytest.param("GET /repos/acme/project$", 503, "Retry later", marks=pytest.mark.soak),
        ("PullRequestCreate", 502, "Retry later"),
        ("/pulls", 403, "does not allow this token"),
    ],
)
async def test_when_github_fails_the_work_is_kept(
    setup: Story, pattern: str, status: int, words: str
) -> None:
    fault = setup.hub.fault(pattern, status)
    async with setup.server() as api:
        result = await code(api, setup)
        assert result["outcome"] == "not_delivered" and words in result["message"], result["message"]
        fault.times = 0
        await api.post(f"{V1}/runs/{result['run']}/deliver")
        assert (await ended(api, result["session"], 2))["outcome"] == "proposed"
    assert len(setup.pulls()) == 1
    assert [branch for branch in setup.hub.repository("acme/project").branches() if branch != "main"] == [
        "hutch/slugs-are-lower-case"
    ]


ARCHIVED = dumped({"archived": True, "full_name": "acme/project"}).encode()
NO_FORK = dumped({"permissions": {"push": False}, "allow_forking": False}).encode()


@pytest.mark.parametrize(
    ("status", "content", "words"),
    [
        (401, b"", "set-secret github_enterprise_token"),
        (200, ARCHIVED, "is archived"),
        (200, NO_FORK, "may not push"),
    ],
)
async def test_what_could_not_be_delivered_is_refused_before_a_model_is_asked(
    setup: Story, status: int, content: bytes, words: str
) -> None:
    setup.hub.fault("GET /repos/acme/project$", status, content=content)
    async with setup.server() as api:
        result = await code(api, setup)
        assert result["outcome"] == "failed" and words in result["message"], result["message"]
        assert "--no-pr" not in result["message"]  # this request is for a pull request
        events = await api.events(result["session"])
        assert "model.replied" not in [each["type"] for each in events]
        wanted = {"repository": setup.hub.url("acme/project"), "model": setup.model(), "prompt": "Slugs."}
        session = await api.new_session(**wanted)  # nothing is to be delivered
        await api.until(session["id"], "idle")
        runs = (await api.get(f"{V1}/sessions/{session['id']}/runs")).json()["items"]
        assert runs[0]["outcome"] == "done"


async def test_without_a_token_a_member_gets_the_setting_and_its_owner(setup: Story) -> None:
    setup.forget()
    async with setup.server(model=setup.model()) as api:
        bob = await api.as_user("bob")
        asked = {"repoUrl": setup.hub.url("acme/project"), "prompt": "Make slugs lower case."}
        answered = await bob.post("/api/code", json=asked, headers={"Accept": "application/json"})
        result = answered.json()
        assert result["outcome"] == "failed", result
        for words in ("no token", "operator", "set-secret github_enterprise_token"):
            assert words in result["message"]
        assert "--no-pr" not in result["message"]
        owner = await code(api, setup)  # may use what the account has, which is nothing here
        assert owner["outcome"] == "failed" and "set-secret github_enterprise_token" in owner["message"]
        assert "needs a token, and none is set" in owner["message"], owner["message"]
        for each in (result, owner):
            events = await api.events(each["session"])
            assert "model.replied" not in [event["type"] for event in events]
    assert setup.hub.repository("acme/project").branches() == ["main"]


async def test_the_token_in_a_servers_environment_opens_pull_requests(
    setup: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup.forget()
    monkeypatch.setenv("GITHUB_ENTERPRISE_TOKEN", TOKEN)
    async with setup.server(model=setup.model()) as api:
        bob = await api.as_user("bob")
        asked = {"repoUrl": setup.hub.url("acme/project"), "prompt": "Make slugs lower case."}
        answered = await bob.post("/api/code", json=asked, headers={"Accept": "application/json"})
        assert answered.json()["outcome"] == "done", answered.json()["message"]
    assert len(setup.pulls()) == 1


async def test_a_long_limit_is_reported_with_its_end(setup: Story) -> None:
    spent = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "4102444800"}
    setup.hub.fault("GET /repos", 403, headers=spent, message="API rate limit exceeded for user")
    async with setup.server() as api:
        result = await code(api, setup)
    assert result["outcome"] == "not_delivered" and "used up until" in result["message"]


async def test_repositories_that_cannot_be_worked_on(setup: Story) -> None:
    setup.hub.state.add("acme/empty", None)
    setup.hub.state.add("acme/secret", setup.place / "made", private=True)
    async with setup.server() as api:
        hidden = "does not exist, or Hutch's token for it has no access"
        for name, words in (("missing", hidden), ("empty", "is empty"), ("secret", hidden)):
            result = await code(api, setup, repoUrl=setup.hub.url(f"acme/{name}"))
            assert result["outcome"] == "failed" and words in result["message"], result["message"]
    assert setup.pulls() == {}


async def test_nothing_to_change_opens_nothing(setup: Story) -> None:
    async with setup.server() as api:
        result = await code(api, setup, model=setup.model({"text": "It is fine as it is."}))
    assert (result["outcome"], setup.pulls()) == ("nothing", {})
    assert setup.hub.repository("acme/project").branches() == ["main"]


async def test_an_unusual_default_branch_submodules_and_lfs(tmp_path: Path) -> None:
    files = {
        "slug.py": "def slug(text):\n    return text\n",
        ".gitmodules": '[submodule "x"]\n\tpath = x\n\turl = http://127.0.0.1:1/never\n',
        ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n",
        "a.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 4\n",
    }
    with story(tmp_path, files, default="release/1.x") as setup:
        async with setup.server() as api:
            result = await code(api, setup)
        (pull,) = setup.pulls().values()
        assert (result["outcome"], pull["base"]) == ("done", "release/1.x")
        changed = git(
            setup.hub.repository("acme/project").path, "diff", "--name-only", pull["base"], pull["branch"]
        )
        assert changed == "slug.py"


TESTS = """import unittest
from slug import slug
class T(unittest.TestCase):
    def test_lower(self): self.assertEqual(slug("A"), "a")
    def test_old(self): self.assertEqual(1, 2)
"""
WORSE = call("write_file", path="slug.py", content="def slug(text):\n    return None\n")


@pytest.mark.parametrize("worse", [False, True])
async def test_tests_that_failed_before_do_not_stand_in_the_way(tmp_path: Path, worse: bool) -> None:
    before = "def slug(text):\n    return text\n"
    before = before.replace("return text", "return text.lower()") if worse else before
    with story(tmp_path, {"slug.py": before, "test_slug.py": TESTS}) as setup:
        async with setup.server() as api:
            asked = {"model": setup.model(WORSE if worse else FIX, FINISH)}
            result = await code(api, setup, tests="python3 -m unittest -v", **asked)
            workspaces = (setup.place / "home/data/workspaces").iterdir()
            assert not [each for each in workspaces if each.name.startswith(("before-", "after-"))]
        if worse:
            assert result["outcome"] == "tests_failing" and "test_lower" in result["message"]
            assert "+    return None" in result["diff"] and result["pullRequest"] is None
            assert setup.pulls() == {}
            return
        assert result["outcome"] == "done", result
        (pull,) = setup.pulls().values()
        assert "1 test fails, as it did before." in pull["body"]
        assert "before: 2 failed" in pull["body"]


async def test_a_huge_repository_is_not_fetched_to_its_end(tmp_path: Path) -> None:
    noise = "".join(f"{random.Random(number).getrandbits(4096):x}\n" for number in range(6000))
    with story(tmp_path, {"noise.txt": noise}) as setup:
        async with setup.server(workspace={"bases_bytes": "2MiB"}) as api:
            result = await code(api, setup)
        assert result["outcome"] == "failed" and "workspace.bases_bytes" in result["message"], result
        packs = list((setup.place / "home/data/repositories").rglob("*pack*"))
        assert sum(each.stat().st_size for each in packs if each.is_file()) <= 2 * 1024 * 1024


async def test_what_is_cancelled_while_it_is_delivered_has_a_last_word(setup: Story) -> None:
    setup.hub.fault("GET /repos/acme/project$", 0, times=1)  # the first look is before anybody works
    second = setup.hub.fault("GET /repos/acme/project$", 0, delay_s=DEADLINE_S, times=1)
    async with setup.server() as api:
        url = setup.hub.url("acme/project")
        session = await api.new_session(repository=url, model=setup.model(), deliver=True)
        await api.give(session["id"], type="prompt", text="Make slugs lower case.")

        async def reached() -> bool:
            return second.reached.is_set()

        await eventually(reached)
        await api.give(session["id"], type="cancel")
        last = await ended(api, session["id"], 1)
        second.released.set()
        assert (last["outcome"], last["reason"]) == ("failed", "It was cancelled before it was delivered.")
        runs = (await api.get(f"{V1}/sessions/{session['id']}/runs")).json()["items"]
        run = await eventually_ended(api, runs[0]["id"])
        assert (run["outcome"], run["delivered"]["outcome"]) == ("done", "failed") and setup.pulls() == {}
        again = await api.post(f"{V1}/runs/{run['id']}/deliver")
        assert again.status_code == 202, again.text
        assert (await ended(api, session["id"], 2))["outcome"] == "proposed" and len(setup.pulls()) == 1


async def test_a_pull_request_that_is_being_opened_is_seen_through(setup: Story) -> None:
    setup.hub.fault("PullRequestCreate", 0, delay_s=1.0, times=1)
    async with setup.server() as api:
        url = setup.hub.url("acme/project")
        session = await api.new_session(repository=url, model=setup.model(), deliver=True)
        await api.give(session["id"], type="prompt", text="Make slugs lower case.")

        async def reached() -> bool:
            return setup.hub.count("PullRequestCreate") > 0

        await eventually(reached)
        await api.give(session["id"], type="cancel")
        await api.give(session["id"], type="cancel")
        last = await ended(api, session["id"], 1)
        [pull], [change] = setup.pulls().values(), (await api.get(f"{V1}/changes")).json()["items"]
        assert (last["outcome"], last["change_id"]) == ("proposed", change["id"])
        assert (change["number"], change["branch"]) == (pull["number"], pull["branch"])
        runs = (await api.get(f"{V1}/sessions/{session['id']}/runs")).json()["items"]
        assert (await eventually_ended(api, runs[0]["id"]))["outcome"] == "done"


async def test_an_app_works_in_the_place_of_a_token(setup: Story) -> None:
    key = RSAKey.generate_key(2048)
    setup.hub.api.app_id, setup.hub.api.app_key = "4711", key
    setup.hub.api.installed = {"acme/project"}
    setup.hub.repository("acme/project").private = True
    setup.hub.repository("acme/project").permissions = {"hutch[bot]": "write"}
    setup.keep("github_app_key", key.as_pem(private=True).decode())
    app = {**setup.flags["github"], "app_id": "4711", "app_host": f"{HOST}:{setup.hub.port}"}
    async with setup.server(github=app) as api:
        result = await code(api, setup)
        seen = dumped(await api.events(result["session"])) + dumped(result)
    assert result["outcome"] == "done", result["message"]
    (pull,) = setup.pulls().values()
    assert pull["user"] == {"login": "hutch[bot]"}
    (minted,) = setup.hub.api.minted  # one for all of it
    assert minted not in seen
    assert [path for path, content in everything_below(setup.place) if minted.encode() in content] == []
