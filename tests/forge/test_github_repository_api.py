"""The real gh with a GitHub on a socket: pull requests, opened once, with the right permissions."""

import asyncio
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hutch.domain.errors import Conflict, Denied, HutchError, LimitReached, NotFound, Unavailable
from hutch.forge.gh_command import Gh, RetryPolicy
from hutch.forge.github_api_types import LineComment, NewPullRequest, NewReview
from hutch.forge.github_repository_api import GitHub
from hutch.forge.repo_url import parse_repo_url
from tests.forge.github_server import HOST, Hub, github
from tests.forge.repositories import commit, git, make_repository

pytestmark = pytest.mark.anyio
TOKEN = "tok_ada_0123456789"
NEW_PULL = NewPullRequest(
    branch="hutch/more",
    head_owner="acme",
    base="main",
    commit="",
    title="Say more",
    body="It greets.",
    labels=("hutch",),
    reviewers=("eve",),
)


@dataclass
class World:
    hub: Hub
    place: Path

    def forge(self, token: str = TOKEN, name: str = "acme/project", **retry_policy: float) -> GitHub:
        async def token_of() -> str:
            return token

        how = RetryPolicy(**{"first_delay_s": 0.01, "max_wait_s": 2.0, **retry_policy})
        gh = Gh(HOST, token_of, {"PATH": os.defpath}, str(self.hub.socket), how)
        return GitHub(gh, parse_repo_url(self.hub.url(name)))

    def push(self, full_name: str = "acme/project", branch: str = "hutch/more", text: str = "2") -> str:
        made = commit(self.place / "made", {"b": text})
        git(self.place / "made", "push", "-q", str(self.hub.repository(full_name).path), f"HEAD:{branch}")
        return made


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    make_repository(tmp_path / "made", {"a": "1"})
    with github(tmp_path) as hub:
        people = {"ada": "write", "eve": "write", "bob": "read"}
        hub.state.add("acme/project", tmp_path / "made", permissions=people)
        hub.state.tokens |= {TOKEN: "ada", "tok_bob_0123456789": "bob"}
        yield World(hub, tmp_path)


async def test_a_branch_becomes_a_pull_request_and_the_same_one_again(world: World) -> None:
    new_pull = replace(NEW_PULL, commit=world.push(), draft=True)
    made = await world.forge().open(new_pull)
    assert (made.number, made.state, made.draft, made.author) == (1, "open", True, "ada")
    assert made.url == "https://127.0.0.1/acme/project/pull/1"
    assert (made.branch, made.base, made.commit, made.notes) == ("hutch/more", "main", new_pull.commit, ())
    pull = world.hub.repository("acme/project").pulls[1]
    assert (pull["labels"], pull["reviewers"], pull["body"]) == (["hutch"], ["eve"], "It greets.")
    again = await world.forge().open(replace(new_pull, commit=world.push(text="3"), body="It greets twice."))
    assert again.number == 1 and again.body == "It greets twice."
    assert len(world.hub.repository("acme/project").pulls) == 1
    assert world.hub.count("PullRequestCreate") == 1


async def test_a_pull_request_closed_meanwhile_is_not_reopened(world: World) -> None:
    new_pull = replace(NEW_PULL, commit=world.push())
    await world.forge().open(new_pull)
    world.hub.state.close(world.hub.repository("acme/project"), 1)
    assert (await world.forge().open(new_pull)).state == "closed"
    newer = await world.forge().open(replace(new_pull, commit=world.push(text="3")))
    assert (newer.number, newer.state) == (2, "open")


async def test_without_write_access_a_fork_is_used(world: World) -> None:
    bob = world.forge("tok_bob_0123456789")
    target = await bob.target()
    assert (target.owner, target.forked) == ("bob", True)
    assert target.remote.address == world.hub.url("bob/project")
    world.push("bob/project")
    made = await bob.open(replace(NEW_PULL, head_owner=target.owner))
    assert made.head_owner == "bob" and made.base == "main"
    assert [note.split(" ")[0] for note in made.notes] == ["The", "No"]  # neither label nor reviewer
    assert (await bob.target()).remote.address == target.remote.address
    own = await world.forge().target()
    assert (own.owner, own.forked, own.remote.address) == ("acme", False, world.hub.url("acme/project"))


async def test_comments_are_kept_up_to_date_and_reviews_have_lines(world: World) -> None:
    forge = world.forge()
    pull = await forge.open(replace(NEW_PULL, commit=world.push()))
    first = await forge.comment(pull.number, "It begins.")
    second = await forge.comment(pull.number, "It is done.", id=first.id)
    assert first == second
    comments = world.hub.repository("acme/project").issues[1]["comments"]
    assert [each["body"] for each in comments.values()] == ["It is done."]
    comments.clear()
    assert (await forge.comment(pull.number, "Once more.", id=first.id)).id != first.id
    said = NewReview(
        commit=pull.commit, body="Fine.", comments=(LineComment(path="b", line=1, body="Why 2?"),)
    )
    await forge.review(pull.number, said)
    review = world.hub.repository("acme/project").pulls[1]["reviews"][0]
    assert review["comments"] == [{"path": "b", "line": 1, "side": "RIGHT", "body": "Why 2?"}]
    with pytest.raises(Conflict, match="Path could not be resolved"):
        await forge.review(pull.number, replace(said, comments=(LineComment(path="no", line=1, body="x"),)))
    assert b"+2" in await forge.diff(pull.number)
    assert await forge.me() == "ada"
    assert [await forge.permission(name) for name in ("ada", "bob", "../x")] == ["write", "read", "none"]


@pytest.mark.parametrize(
    ("token", "name", "family", "words"),
    [
        ("tok_wrong_0123456789", "acme/project", Denied, "set-secret github_enterprise_token"),
        (TOKEN, "acme/missing", NotFound, "no such repository"),
    ],
)
async def test_refusals_say_who_must_act(
    world: World, token: str, name: str, family: type[HutchError], words: str
) -> None:
    with pytest.raises(family, match=words) as caught:
        await world.forge(token, name).target()
    assert token not in str(caught.value) + repr(caught.value.__cause__)


async def test_a_pull_request_is_merged_at_the_commit_that_was_seen(world: World) -> None:
    forge, seen = world.forge(), world.push()
    pull = await forge.open(replace(NEW_PULL, commit=seen))
    moved = world.push(text="3")
    with pytest.raises(Conflict, match="Head branch was modified"):
        await forge.merge(pull.number, commit=seen)
    assert await forge.delete_branch(pull) == "hutch/more was not deleted: it has new commits."
    repo = world.hub.repository("acme/project")
    repo.methods = ("rebase_merge",)
    with pytest.raises(Conflict, match="are not allowed"):
        await forge.merge(pull.number, commit=moved, method="squash")
    merged = await forge.merge(pull.number, commit=moved)
    assert merged == repo.tip("main") == await forge.merge(pull.number, commit=moved)
    done = await forge.pull(pull.number)
    assert (done.state, done.merged_commit, done.head_repository) == ("merged", merged, "acme/project")
    assert await forge.delete_branch(done) == "" and repo.branches() == ["main"]
    assert await forge.delete_branch(done) == ""  # once more, by somebody who does not know


async def test_a_pull_request_is_closed_and_objectors_are_known(world: World) -> None:
    forge, seen = world.forge(), world.push()
    pull = await forge.open(replace(NEW_PULL, commit=seen))
    reviews = world.hub.repository("acme/project").pulls[pull.number]["reviews"]
    for login, verdict in (("eve", "CHANGES_REQUESTED"), ("bob", "CHANGES_REQUESTED"), ("eve", "COMMENTED")):
        reviews.append({"user": {"login": login}, "state": verdict})
    assert (await forge.verdicts(pull.number)).against == ("eve", "bob")
    reviews += [{"user": {"login": "eve"}, "state": "APPROVED"}] * 100
    stranger = {"user": {"login": "mallory"}, "state": "CHANGES_REQUESTED", "html_url": "https://127.0.0.1/m"}
    reviews.append({**stranger, "author_association": "NONE"})
    reviews.append({**reviews[1], "html_url": "https://127.0.0.1/b", "author_association": "MEMBER"})
    reviews.append({"user": {"login": "bob"}, "state": "COMMENTED", "html_url": "https://127.0.0.1/c"})
    found = await forge.verdicts(pull.number)
    assert (found.against, found.urls) == (("bob",), {"https://127.0.0.1/b"})
    assert (await forge.close(pull.number)).state == "closed"
    on_line = LineComment(path="b", line=1, body="Why?", start_line=1)
    posted = await forge.comment_on_line(pull.number, on_line, commit=seen)
    assert await forge.find(pull.number, "Why?", among="lines") is not None and posted.id
    with pytest.raises(Conflict, match="must be part of the diff"):
        await forge.comment_on_line(pull.number, replace(on_line, line=9), commit=seen)


async def test_a_missing_key_or_address_is_reported_by_its_name(world: World) -> None:
    with pytest.raises(NotFound, match=r"There is no pull request #7 in acme/project on"):
        await world.forge().pull(7)
    with pytest.raises(NotFound, match="There is no such repository"):
        await world.forge(name="acme/nothing").pull(7)


async def test_a_private_repository_does_not_exist_for_others(world: World) -> None:
    world.hub.repository("acme/project").private = True
    world.hub.repository("acme/project").permissions.pop("bob")
    with pytest.raises(NotFound):
        await world.forge("tok_bob_0123456789").target()
    assert not (await world.forge().target()).forked


async def test_a_short_rate_limit_is_waited_for_and_a_long_one_reported(world: World) -> None:
    spent = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(time.time()) + 1)}
    world.hub.fault(
        "GET /repos/acme/project$", 403, headers=spent, message="API rate limit exceeded", times=1
    )
    world.hub.fault("GET /repos/acme/project$", 429, headers={"Retry-After": "1"}, times=1)
    assert (await world.forge().target()).owner == "acme"
    assert world.hub.count("GET /repos/acme/project$") == 3
    world.hub.fault("GET /repos/acme/project$", 429, headers={"Retry-After": "3600"})
    with pytest.raises(Unavailable, match=r"used up until \d{4}-\d\d-\d\d \d\d:\d\d UTC"):
        await world.forge().target()
    assert world.hub.count("GET /repos/acme/project$") == 4


async def test_failures_that_may_pass_are_tried_again(world: World) -> None:
    world.hub.fault("GET /repos/acme/project$", 502, times=2)
    assert (await world.forge().target()).owner == "acme"
    world.hub.fault("GET /repos/acme/project$", 503)
    with pytest.raises(Unavailable, match="Retry later"):
        await world.forge().target()


async def test_an_answer_that_was_lost_leaves_one_pull_request(world: World) -> None:
    world.hub.fault("PullRequestCreate", 502, after=True)
    made = await world.forge().open(replace(NEW_PULL, commit=world.push()))
    assert made.number == 1 and len(world.hub.repository("acme/project").pulls) == 1


async def test_github_that_is_down(world: World) -> None:
    forge = world.forge()
    gone = replace(forge, gh=replace(forge.gh, socket=str(world.place / "nobody")))
    with pytest.raises(Unavailable, match="Retry later"):
        await gone.target()


@pytest.mark.parametrize(
    "said",
    [
        *(
            b"[]",
            b"7",
            b"null",
            b"[[]]",
            b"{}",
            b"<html>",
            b"[" * 100_000,
            b'{"id": "7"}',
            b'{"number": "7"}',
        ),
        b'{"number": 7, "state": "open", "html_url": "x", "title": "x", "head": null, "base": []}',
    ],
)
async def test_an_answer_of_another_kind_is_as_good_as_none(world: World, said: bytes) -> None:
    forge = world.forge()
    world.hub.fault("/pulls/1$", 200, content=said)
    world.hub.fault("/comments$", 201, content=said)
    for asking in (forge.pull(1), forge.update(1, body="x"), forge.comment(1, "x")):
        with pytest.raises(Unavailable, match="GitHub's response"):
            await asking


async def test_a_response_of_the_wrong_json_type_is_refused(world: World) -> None:
    forge = world.forge()
    for pattern in ("project$", "permission$", "/user$"):
        world.hub.fault(pattern, 200, content=b"[]")
    for pattern in ("comments$", "/pulls$"):
        world.hub.fault(pattern, 200, content=b'{"body": "x"}')
    for asking in (
        *(forge.target(), forge.permission("ada"), forge.me(), forge.find(1, "x")),
        forge.open(NEW_PULL),
    ):
        with pytest.raises(Unavailable, match="GitHub's response"):
            await asking


async def test_optional_fields_may_be_null(world: World) -> None:
    world.hub.fault("project$", 200, content=b'{"permissions": null, "owner": null, "default_branch": null}')
    target = await world.forge().target()
    assert (target.owner, target.default, target.forked) == ("acme", "main", False)


def arguments() -> set[bytes]:
    """Of every process there is."""
    found = set()
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                found.add((process / "cmdline").read_bytes())
            except OSError:
                continue
    return found


async def test_the_token_is_in_no_argument_while_gh_runs(world: World) -> None:
    """Arguments can be read by everybody on the machine; its environment by its own user alone."""
    world.hub.fault("GET /repos/acme/project$", 0, delay_s=0.6)
    asking = asyncio.ensure_future(world.forge().target())
    seen: set[bytes] = set()
    while not asking.done():
        seen |= await asyncio.to_thread(arguments)
    target = await asking
    assert any(b"gh\0api\0" in line for line in seen)  # so it was seen
    assert not any(TOKEN.encode() in line for line in seen)
    assert TOKEN not in repr(target) and target.remote.credentials == ("x-access-token", TOKEN)


async def test_gh_finds_nothing_of_ours_in_its_environment(world: World, tmp_path: Path) -> None:
    async def token_of() -> str:
        return TOKEN

    environ = {"PATH": os.defpath, "GH_TOKEN": "mine", "HOME": "/root", "AWS_SECRET": "x", "GH_DEBUG": "api"}
    gh = Gh("github.com", token_of, environ)
    assert set(gh.environment(tmp_path, TOKEN)) == {
        *("PATH", "HOME", "GH_CONFIG_DIR", "GH_HOST", "GH_TOKEN", "GH_PROMPT_DISABLED"),
        *("GH_NO_UPDATE_NOTIFIER", "GIT_CONFIG_NOSYSTEM", "NO_COLOR", "LC_ALL"),
    }
    assert gh.environment(tmp_path, TOKEN)["GH_TOKEN"] == TOKEN
    assert "GH_TOKEN" not in replace(gh, host="ghe.example.com").environment(tmp_path, TOKEN)


async def test_a_page_that_is_not_on_the_forge_is_nobodys_address(world: World) -> None:
    forge, seen = world.forge(), world.push()
    pull = await forge.open(replace(NEW_PULL, commit=seen))
    for url in (
        "chg_01jd2m4c9k7w6t0q8n5x3vbaeh",
        "https://evil.example.com/acme/project/pull/1",
        "https://127.0.0.1@evil.example.com/pull/1",
        "https://token@127.0.0.1/pull/1",
        "javascript://127.0.0.1/%0aalert(1)",
        "https://127.0.0.1/\u202egnp",
        "https://[127.0.0.1/",
    ):
        about = {"number": 1, "state": "open", "html_url": url, "head": {"ref": "b"}, "base": {"ref": "main"}}
        world.hub.faults.clear()
        world.hub.fault("/pulls/1$", 200, content=json.dumps(about).encode())
        world.hub.fault("/issues/1/comments$", 201, content=json.dumps({"id": 7, "html_url": url}).encode())
        found, said = await forge.pull(pull.number), await forge.comment(1, "x")
        assert (found.url.endswith("/acme/project/pull/1"), said.url) == (True, ""), url


async def test_an_answer_about_another_pull_request_is_refused(world: World) -> None:
    about = {"number": 2, "state": "open", "html_url": "", "head": {"ref": "b"}, "base": {"ref": "main"}}
    world.hub.fault("/pulls/1$", 200, content=json.dumps(about).encode())
    forge = world.forge()
    for asking in (forge.pull(1), forge.update(1, body="x"), forge.close(1)):
        with pytest.raises(Unavailable, match="is about #2 instead of #1"):
            await asking


async def test_a_diff_that_is_too_large_for_the_api_has_its_own_error(world: World) -> None:
    world.hub.fault("/pulls/1$", 406, message="Sorry, the diff exceeded the maximum number of lines (20000)")
    with pytest.raises(LimitReached, match="git fetch origin pull/1/head"):
        await world.forge().diff(1)
