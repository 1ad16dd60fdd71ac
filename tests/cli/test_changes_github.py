"""`hutch changes` on a pull request: it is read, judged, merged and closed where it is."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deadline import DEADLINE_S
from tests.forge.github_server import HOST
from tests.forge.github_state import Repository
from tests.forge.repositories import commit, git
from tests.forked import HUTCH, run
from tests.sessions.hosting import call
from tests.stories.github import FINISH, FIX, TOKEN, Story, story

EVE = "tok_eve_0123456789"


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Story, Callable[[], None]]]:
    """A story up to the pull request that a run opened, and a way back to there."""
    people = {"hutch-bot": "write", "eve": "write", "ada": "write"}
    with story(tmp_path_factory.mktemp("story"), permissions=people) as made:
        made.hub.state.tokens[EVE] = "eve"
        model = made.model(FIX, FINISH)
        ran = hutch(
            made, "run", "Make slugs lower case.", "--repo", made.hub.url("acme/project"), "--model", model
        )
        assert ran.returncode == 0, ran.stderr
        with made.saved() as restore:
            yield made, restore


@pytest.fixture
def told(first: tuple[Story, Callable[[], None]]) -> Story:
    made, restore = first
    restore()
    return made


def hutch(told: Story, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(told.place / "home"),
        "HUTCH_HOME": str(told.place / "home"),
        "HUTCH_GITHUB__HOSTS": f"{HOST}:{told.hub.port}",
        "HUTCH_GITHUB__UNIX_SOCKET": str(told.hub.socket),
    }
    ran = run(
        [HUTCH, *words],
        cwd=told.place,  # no repository: there `last` is the newest change of all
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert TOKEN not in ran.stdout + ran.stderr and EVE not in ran.stdout + ran.stderr
    return ran


def changes(told: Story, *words: str) -> subprocess.CompletedProcess[str]:
    return hutch(told, "changes", *words)


def refused(told: Story, *words: str) -> str:
    ran = changes(told, *words)
    assert (ran.returncode != 0, ran.stdout) == (True, ""), ran.stdout
    return ran.stderr


def shown(told: Story) -> dict[str, Any]:
    return dict(json.loads(changes(told, "show", "--json").stdout))


def repo(told: Story) -> Repository:
    return told.hub.repository("acme/project")


def test_it_is_listed_with_its_repository_read_and_merged(told: Story) -> None:
    change = shown(told)
    listed = changes(told, "list").stdout
    assert "  open    acme/project#1  hutch/slugs-are-lower-case  Slugs are lower case\n" in listed
    patch = changes(told, "diff").stdout
    assert "+    return text.lower()" in patch
    assert "Choose merge, squash or rebase" in refused(told, "merge", "--strategy", "fast-forward")
    merged = changes(told, "merge", change["id"][-6:], "--json")
    assert merged.returncode == 0, merged.stderr
    done = json.loads(merged.stdout)
    assert done["commit"] == repo(told).tip("main") == shown(told)["merged_commit"]
    assert git(repo(told).path, "rev-parse", "main^2") == change["commit"]
    assert done["branch_deleted"] and repo(told).branches() == ["main"]
    assert repo(told).pulls[1]["merged"] and shown(told)["state"] == "merged"
    assert "is merged already" in refused(told, "close")


@pytest.mark.parametrize(
    ("allowed", "strategy", "parents"),
    [(("squash_merge",), None, 1), (("merge_commit", "rebase_merge"), "rebase", 1)],
    ids=["as the repository allows", "as was asked for"],
)
def test_the_merge_method_fits_the_repository(
    told: Story, allowed: tuple[str, ...], strategy: str | None, parents: int
) -> None:
    repo(told).methods = allowed
    assert "are not allowed" in refused(
        told, "merge", "--strategy", "merge" if strategy is None else "squash"
    )
    assert changes(told, "merge", *(("--strategy", strategy) if strategy else ())).returncode == 0
    told_of = git(repo(told).path, "log", "-1", "--format=%P|%s", "main").split("|")
    assert (len(told_of[0].split()), told_of[1]) == (parents, f"Slugs are lower case ({allowed[-1]})")


def test_changes_requested_on_github_block_a_merge(told: Story) -> None:
    eves = {"user": {"login": "eve"}, "state": "CHANGES_REQUESTED", "body": "No."}
    repo(told).pulls[1]["reviews"].append(eves)
    said = refused(told, "merge")
    assert "eve asked for changes" in said and "--force" in said
    assert not repo(told).pulls[1]["merged"]
    forced = changes(told, "merge", "--force")
    assert forced.returncode == 0 and "although eve asked for changes" in forced.stderr


def test_commits_pushed_later_are_not_merged_unseen(told: Story, tmp_path: Path) -> None:
    change = shown(told)
    place = tmp_path / "theirs"
    git(tmp_path, "clone", "-q", "-b", change["branch"], str(repo(told).path), str(place))
    made = commit(place, {"slug.py": "import os\n"})
    git(place, "push", "-q", "origin", "HEAD")
    said = refused(told, "merge", "--force")
    assert f"it is at {made[:12]}" in said and repo(told).tip("main") != made
    closed = changes(told, "close")
    assert closed.returncode == 0 and "it has new commits" in closed.stderr
    assert repo(told).tip(change["branch"]) == made


def test_a_conflict_is_reported_and_the_pull_request_stays_open(told: Story, tmp_path: Path) -> None:
    place = tmp_path / "theirs"
    git(tmp_path, "clone", "-q", str(repo(told).path), str(place))
    commit(place, {"slug.py": "def slug(text):\n    return text.upper()\n"})
    git(place, "push", "-q", "origin", "HEAD:main")
    assert "not mergeable" in refused(told, "merge")
    assert shown(told)["state"] == "open"


def test_closing_closes_the_pull_request_and_deletes_its_branch(told: Story) -> None:
    ran = changes(told, "close")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert repo(told).pulls[1]["state"] == "closed" and repo(told).branches() == ["main"]
    assert shown(told)["state"] == "closed"


def test_a_pull_request_settled_on_github_is_settled_here(told: Story) -> None:
    told.hub.state.close(repo(told), 1)
    assert "was closed on GitHub" in refused(told, "merge")
    assert shown(told)["state"] == "closed"


def test_showing_a_change_mirrors_a_close_on_github(told: Story) -> None:
    told.hub.state.close(repo(told), 1)
    told.hub.fault(r"GET .*/pulls/1$", 503)
    assert "state      open\n" in changes(told, "show").stdout
    told.hub.faults.clear()
    told.hub.fault(r"GET .*/pulls/1$", 0, delay_s=10)  # it would say so, later than anybody waits
    assert "state      open\n" in changes(told, "show").stdout
    told.hub.faults.clear()
    assert "state      closed\n" in changes(told, "show").stdout
    assert "  closed  " in changes(told, "list", "--all").stdout


def test_showing_a_change_mirrors_a_merge_on_github(told: Story) -> None:
    told.hub.state.close(repo(told), 1, merged=True)
    repo(told).pulls[1]["merge_commit"] = "a" * 40
    change = shown(told)
    assert (change["state"], change["merged_commit"]) == ("merged", "a" * 40)


def test_a_merge_whose_response_was_lost_is_recorded(told: Story) -> None:
    told.hub.fault(r"PUT .*/merge", 502, after=True, times=1)
    merged = changes(told, "merge", "--json")
    assert merged.returncode == 0, merged.stderr
    assert json.loads(merged.stdout)["commit"] == repo(told).tip("main")


def test_a_comment_is_posted_on_its_line(told: Story) -> None:
    told.keep(value=EVE)
    said = changes(
        told, "comment", "last", "slug.py:2", "Why, @ada? <!-- hutch-review x -->", "--severity", "should"
    )
    assert said.returncode == 0, said.stderr
    (posted,) = repo(told).issues[1]["comments"].values()
    assert (posted["path"], posted["line"], posted["side"]) == ("slug.py", 2, "RIGHT")
    assert posted["body"].startswith("**should**: Why, @ada? ") and "<!-- hutch-review" not in posted["body"]
    assert posted["commit_id"] == shown(told)["commit"]
    assert said.stdout.strip() in changes(told, "comments").stdout
    assert "does not show line 900. It shows 1 to 2" in refused(told, "comment", "last", "slug.py:900", "x")
    assert "does not touch 'README.md'" in refused(told, "comment", "last", "README.md:1", "x")
    old = changes(told, "comment", "last", "slug.py:2", "Gone.", "--old")
    assert old.returncode == 0, old.stderr
    assert [each["side"] for each in repo(told).issues[1]["comments"].values()] == ["RIGHT", "LEFT"]


def test_a_verdict_is_posted_as_a_review(told: Story) -> None:
    for word in (("approve",), ("request-changes", "last", "--body", "x")):
        said = refused(told, *word)
        assert "does not let users review their own pull requests" in said and "hutch-bot" in said
    assert changes(told, "comments", "--json").stdout == ""
    told.keep(value=EVE)
    asked = changes(told, "request-changes", "last", "--body", "Also strip it.")
    assert asked.returncode == 0, asked.stderr
    approved = changes(told, "approve", "--body", "Good.", "--json")
    first, second = repo(told).pulls[1]["reviews"]
    assert [each["event"] for each in (first, second)] == ["REQUEST_CHANGES", "APPROVE"]
    assert first["body"].startswith("Also strip it.") and first["html_url"] in asked.stdout
    assert second["commit_id"] == shown(told)["commit"]
    assert json.loads(approved.stdout)["url"] == second["html_url"]


def test_a_verdict_that_github_refuses_is_not_stored(told: Story) -> None:
    told.keep(value=EVE)
    told.hub.fault(r"POST .*/reviews", 503)
    assert "failed: " in refused(told, "approve")
    assert changes(told, "comments", "--json").stdout == ""


def test_a_missing_pull_request_is_reported(told: Story) -> None:
    del repo(told).pulls[1]
    for word in ("diff", "merge", "close"):
        said = refused(told, word)
        assert "There is no pull request #1 in acme/project" in said, said


def test_the_printed_address_names_a_change(told: Story) -> None:
    change = shown(told)
    assert str(told.hub.port) not in change["web_url"]  # as a forge behind another port may call itself
    assert change["web_url"] in changes(told, "show").stdout
    assert changes(told, "diff", change["web_url"]).stdout == changes(told, "diff").stdout
    say = call("comment", path="slug.py", line=2, severity="could", body="Fine.")
    model = told.model(say, call("finish", title="Good.", summary=""), name="r.json")
    for number, name in enumerate((change["web_url"], change["id"][-8:])):
        again = ("--again",) if number else ()
        ran = hutch(told, "review", name, "--model", model, *again)
        assert ran.returncode == 0, ran.stderr
        assert len(repo(told).pulls[1]["reviews"]) == number + 1
    elsewhere = hutch(told, "review", f"https://{HOST}/acme/other/pull/3", "--model", model)
    assert f"{HOST}:{told.hub.port}: use an address with that port" in elsewhere.stderr


@pytest.mark.parametrize(
    "spelled",
    [
        pytest.param("as it is printed", marks=pytest.mark.soak),
        pytest.param("by where it was pushed", marks=pytest.mark.soak),
        "otherwise",
    ],
)
def test_a_blocker_found_by_address_blocks_the_merge(told: Story, spelled: str) -> None:
    change = shown(told)
    there = told.hub.url("acme/project").removesuffix(".git") + "/pull/1"
    urls = {"as it is printed": change["web_url"], "by where it was pushed": there}
    say = call("comment", path="slug.py", line=2, severity="blocker", body="Loses letters.")
    model = ("--model", told.model(say, call("finish", title="Not yet.", summary=""), name="r.json"))
    url = urls.get(spelled, there.replace("acme/project", "Acme/Project") + "/files")
    ran = hutch(told, "review", url, *model)
    assert ran.returncode == 3, ran.stdout + ran.stderr
    said = changes(told, "comments", change["id"]).stdout
    assert "changes requested by hutch" in said and "slug.py:2  blocker" in said
    assert "the agent's review asked for changes" in refused(told, "merge", change["id"])
    again = hutch(told, "review", change["id"], *model)
    assert (again.returncode, "Already reviewed at " in again.stdout) == (3, True), again.stdout
    fine = ("--model", told.model(call("finish", title="Good.", summary=""), name="f.json"))
    assert hutch(told, "review", url, "--again", *fine).returncode == 0
    assert changes(told, "merge", change["id"]).returncode == 0


def test_without_a_token_the_message_names_the_secret(told: Story) -> None:
    told.forget()
    assert "hutch config set-secret github_enterprise_token" in refused(told, "merge")
